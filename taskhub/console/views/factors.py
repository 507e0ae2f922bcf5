"""A person's own second factor: to set it up, with recovery codes, and to remove it. Also the page of the code at
sign-in.

For each change people type their password again (on allauth's page), even if they typed it for the last change. So
nobody who finds the browser open a minute later can change anything.
"""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from allauth.account.internal.stagekit import clear_login, unstash_login
from allauth.mfa.base.views import authenticate
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from taskhub.console.access import identify, page
from taskhub.console.confirmed import remember
from taskhub.console.forms.people import SetUpForm
from taskhub.console.htmx import leave
from taskhub.console.requests import ConsoleRequest
from taskhub.control import factors
from taskhub.core.errors import Invalid, LimitReached
from taskhub.domain.address import base_url
from taskhub.domain.people.accounts import has_typed_password
from taskhub.domain.people.factors import NewApp


def password_first(request: ConsoleRequest, back: str) -> HttpResponse | None:
    """The redirect to the page that asks for the password, which leads to `back`; `None` if the password was typed a
    moment ago. Posted data is lost on the way: the page at `back` asks again what to do."""
    if not is_reauthentication_required(request, app="allauth.mfa"):
        return None
    return leave(request, f"{reverse('account_reauthenticate')}?{urlencode({REDIRECT_FIELD_NAME: back})}")


def password_used(request: ConsoleRequest) -> None:
    """Forget that the password was typed, because a change was made: the next change asks for it again."""
    methods = request.session.get(AUTHENTICATION_METHODS_SESSION_KEY) or []
    request.session[AUTHENTICATION_METHODS_SESSION_KEY] = [one for one in methods if not one.get("reauthenticated")]


def confirm(request: ConsoleRequest, code: str) -> None:
    """Confirm the person's second factor in this session, by a code of it. Raises `Invalid` or `LimitReached`."""
    remember(request.session, request.person.user_id, factors.confirm(request.caller, code))
    identify(request)


@page("task.view")  # every role has it
@sensitive_post_parameters("code", "sealed")
@sensitive_variables()
@require_http_methods(["GET", "HEAD", "POST"])
def set_up(request: ConsoleRequest) -> HttpResponse:
    """Show the secret of a new authenticator app. When its first code is typed, show the recovery codes, in this
    response only."""
    if factors.own_factor(request.caller) is not None:
        return redirect("account")
    if found := password_first(request, reverse("factor-set-up")):
        return found
    site = urlsplit(base_url(request)).hostname or ""
    if request.method != "POST":
        app, sealed = factors.begin(request.caller, site=site)
        return _set_up(request, app, SetUpForm(initial={"sealed": sealed}))
    form = SetUpForm(request.POST)
    if not form.is_valid():
        app = factors.begun(request.caller, request.POST.get("sealed", ""), site=site)
        return _set_up(request, app, form, status=400)
    sealed = form.cleaned_data["sealed"]
    try:
        factor, codes = factors.set_up(request.caller, sealed, form.cleaned_data["code"], session=_session(request))
    except (Invalid, LimitReached) as error:
        app = factors.begun(request.caller, sealed, site=site)
        form.refuse(error)
        return _set_up(request, app, form, status=429 if isinstance(error, LimitReached) else 400)
    password_used(request)
    remember(request.session, request.person.user_id, factor)
    return _codes(request, codes, added=True)


@page("task.view")
@sensitive_variables()
@require_POST
def renew_codes(request: ConsoleRequest) -> HttpResponse:
    """Make new recovery codes, which are shown in this response only."""
    if found := password_first(request, f"{reverse('account')}?do=codes#confirm"):
        return found
    codes = factors.renew_codes(request.caller)
    password_used(request)
    return _codes(request, codes)


@page("task.view")
@require_POST
def remove(request: ConsoleRequest) -> HttpResponse:
    """Remove one's own second factor."""
    if found := password_first(request, f"{reverse('account')}?do=remove#confirm"):
        return found
    done = factors.remove_own(request.caller, session=_session(request))
    password_used(request)
    said = "Removed. Your password alone signs you in, and other browsers where you were signed in are signed out."
    messages.success(request, said if done else "There was none.")
    return redirect("account")


@sensitive_post_parameters("code")
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """The second step of signing in, for people with a second factor, on allauth's page. If the password has been
    changed since the first step, it leads back to that step. The response is a 429 after too many wrong codes; the page
    says so too."""
    if request.method == "POST" and "code" not in request.POST:
        return redirect("mfa_authenticate")  # allauth would take a form without a code for a passkey
    pending = unstash_login(request, peek=True)
    if pending is not None and not has_typed_password(pending):
        clear_login(request)
        return redirect("account_login")
    response = authenticate(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if form is not None and form.has_error("code", "too_many"):
        response.status_code = 429
    return response


def _session(request: ConsoleRequest) -> str:
    """The cookie of this browser's session."""
    return request.session.session_key or ""


def _set_up(request: ConsoleRequest, app: NewApp, form: SetUpForm, *, status: int = 200) -> HttpResponse:
    grouped = [app.secret[at : at + 4] for at in range(0, len(app.secret), 4)]
    context = {"app": app, "grouped": grouped, "form": form}
    return render(request, "console/factor.html", context, status=status)


def _codes(request: ConsoleRequest, codes: tuple[str, ...], *, added: bool = False) -> HttpResponse:
    return render(
        request, "console/factor_codes.html", {"codes": "\n".join(codes), "number": len(codes), "added": added}
    )
