"""The consent page: a person decides which scopes an application gets (RFC 6749, 4.1.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_http_methods
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauth2_provider.http import OAuth2ResponseRedirect
from oauth2_provider.views.mixins import OAuthLibMixin

from taskhub.console.access import page
from taskhub.console.forms.access import CONSENT_WORDS, ConsentForm
from taskhub.console.requests import ConsoleRequest
from taskhub.core import permissions as gate
from taskhub.core.names import SCOPES
from taskhub.domain.address import base_url, canonical, resource_of
from taskhub.domain.oauth import consents
from taskhub.domain.oauth.documents import is_loopback
from taskhub.lib.addresses import BadAddress, WebAddress, web_address

_SIGNED_IN: Final = "signed-in"
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Wish:
    """A validated authorization request. `registration` is the application's row in django-oauth-toolkit. `asked` are
    the requested scopes; `offer` are those of them that this person may grant, and `beyond` the others."""

    registration: Any
    credentials: dict[str, Any]
    asked: tuple[str, ...]
    offer: tuple[str, ...]
    beyond: tuple[str, ...]

    @property
    def redirect_uri(self) -> str:
        """The redirect URI, to which the response is sent."""
        return str(self.credentials["redirect_uri"])

    @property
    def target(self) -> str:
        """Host and port of the redirect URI, parsed as browsers do."""
        return self.leads_to.host

    @property
    def leads_to(self) -> WebAddress:
        """The parsed redirect URI; parsing cannot fail, because it succeeded when the request was validated."""
        return web_address(self.redirect_uri)

    @property
    def local(self) -> bool:
        """Whether the redirect URI is on the person's own machine. Any program may listen there, so such a request is
        never granted without asking (RFC 8252, 8.6)."""
        return is_loopback(self.leads_to.name)


def authorize(request: HttpRequest) -> HttpResponse:
    """The authorization endpoint, to which an application sends a person.

    A person who has to sign in first is asked for consent afterwards, even if they gave it before: without that
    page the sign-in form would redirect them to the application, which the content security policy forbids.
    """
    if not settings.TASKHUB_OAUTH:
        raise Http404
    if not request.user.is_authenticated:
        here = f"{request.get_full_path()}{'&' if request.GET else '?'}{_SIGNED_IN}=1"
        return redirect(f"{resolve_url('account_login')}?{urlencode({REDIRECT_FIELD_NAME: here})}")
    return _authorize(request)


@page("task.view")
@require_http_methods(["GET", "POST"])
def _authorize(request: ConsoleRequest) -> HttpResponse:
    repeated = [name for name, values in request.GET.lists() if len(values) > 1 and name != "resource"]
    if repeated:  # RFC 6749, 3.1, forbids it
        return _refused(request, f"It sent {repeated[0][:40]} more than once.")
    try:
        wish = _wish(request)
    except ValueError:  # oauthlib raises it for a URL that is not properly encoded
        return _refused(request, "Its request cannot be read.")
    except FatalClientError as error:
        return _refused(request, str(error.oauthlib_error.description or ""))
    except OAuthToolkitError as error:
        problem = error.oauthlib_error
        return _back(request, problem.redirect_uri, problem.error, problem.description, problem.state)
    challenge = wish.credentials.get("code_challenge") or ""
    if wish.credentials.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
        return _error(request, wish, "invalid_request", "code_challenge_method must be S256, with a SHA-256 digest.")
    # Without `resource`, as from clients of 2025-03-26, a request is for the hub's only resource (RFC 8707, 2).
    if {canonical(resource) for resource in request.GET.getlist("resource") if resource} - {resource_of(request)}:
        return _error(request, wish, "invalid_target", f"resource must name {resource_of(request)} and nothing else.")
    application = consents.known(request.person.tenant_id, wish.registration)
    if application is None:
        return _refused(request, "An administrator has locked this program out, or never let it in.")
    remembered = consents.remembered(application, request.person.user_id, wish.target)
    if request.method == "POST":
        return _decide(request, wish, application)
    again = _SIGNED_IN in request.GET or request.GET.get("prompt") == "consent"
    if wish.offer and remembered.issuperset(wish.offer) and not wish.local and not again:
        return _grant(request, wish, wish.offer)
    return _page(request, wish, ConsentForm(offer=wish.offer))


def _wish(request: ConsoleRequest) -> Wish:
    """Validate the authorization request.

    Raises `ValueError` or the toolkit's errors: `FatalClientError` if no redirect URI can be trusted, so that only the
    person can be told, and `OAuthToolkitError` if the error can be sent to the application.
    """
    scopes, credentials = _core().validate_authorization_request(request)
    asked = tuple(scope for scope in SCOPES if scope in scopes)
    may = gate.grantable(request.person.role)
    return Wish(
        registration=credentials["request"].client,
        credentials=credentials,
        asked=asked,
        offer=tuple(scope for scope in asked if scope in may),
        beyond=tuple(scope for scope in asked if scope not in may),
    )


def _decide(request: ConsoleRequest, wish: Wish, application: Any) -> HttpResponse:
    if request.POST.get("decision") != "allow":
        consents.refuse(application, registration=wish.registration, asked=wish.asked, actor=request.caller.actor)
        return _error(request, wish, "access_denied", "The person said no.")
    form = ConsentForm(request.POST, offer=wish.offer)
    if not form.is_valid():
        return _page(request, wish, form, status=400)
    allowed: tuple[str, ...] = form.cleaned_data["grant"]
    consents.remember(
        application,
        registration=wish.registration,
        asked=wish.asked,
        allowed=allowed,
        target=wish.target,
        actor=request.caller.actor,
    )
    return _grant(request, wish, allowed)


def _grant(request: ConsoleRequest, wish: Wish, scopes: tuple[str, ...]) -> HttpResponse:
    credentials = {**wish.credentials, "resource": [resource_of(request)]}
    try:
        uri, _, _, _ = _core().create_authorization_response(request, list(scopes), credentials, True)
    except OAuthToolkitError as error:
        problem = error.oauthlib_error
        return _error(request, wish, problem.error, problem.description)
    return OAuth2ResponseRedirect(uri, wish.registration.get_allowed_schemes())  # type: ignore[no-any-return]  # untyped


def _page(request: ConsoleRequest, wish: Wish, form: ConsentForm, *, status: int = 200) -> HttpResponse:
    response = render(
        request,
        "console/consent.html",
        {
            "name": consents.shown_name(wish.registration),
            "vouching": _vouching(wish.registration),
            "source": wish.registration.registration_source,
            "target": wish.leads_to,
            "local": wish.local,
            "form": form,
            "choices": wish.offer,
            "beyond": [CONSENT_WORDS[scope][0] for scope in wish.beyond],
            "here": request.get_full_path(),
        },
        status=status,
    )
    # This form is answered by a redirect to the application, which may redirect further, to its own site. Browsers
    # apply `form-action` to redirects too.
    response._csp_update = {"form-action": ["https:", "http:"] if wish.local else ["https:"]}  # type: ignore[attr-defined]
    return response


def _vouching(registration: Any) -> WebAddress | None:
    """The URL of the client id metadata document of the application; `None` if it has none."""
    if registration.registration_source != "cimd":
        return None
    try:
        return web_address(str(registration.client_id))
    except BadAddress:
        return None


def _refused(request: HttpRequest, why: str) -> HttpResponse:
    """An error page for the person. Nothing is sent to the application, because it is not certain which application
    sent the person."""
    message = f"The program that sent you here cannot be signed in. {why}".strip()
    context = {"status": 400, "title": "That program cannot sign in", "message": message}
    return render(request, "error.html", context, status=400)


def _error(request: HttpRequest, wish: Wish, error: str, description: str) -> HttpResponse:
    return _back(request, wish.redirect_uri, error, description, wish.credentials.get("state"))


def _back(request: HttpRequest, uri: str, error: str, description: str, state: str | None) -> HttpResponse:
    """Redirect to the application's validated redirect URI with an OAuth error. `iss` says which server the response is
    from (RFC 9207), which is required for errors too."""
    told = {"error": error, "error_description": description, "state": state, "iss": base_url(request)}
    query = urlencode({name: value for name, value in told.items() if value})
    return OAuth2ResponseRedirect(f"{uri}{'&' if '?' in uri else '?'}{query}", ["https", "http"])  # type: ignore[no-any-return]


def _core() -> Any:
    return OAuthLibMixin.get_oauthlib_core()
