"""The mails that a person gets: their choices and log, and the links in mails that confirm an address and end them."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import add_never_cache_headers
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from taskhub.console.access import page
from taskhub.console.forms.mails import MailForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import mails as control
from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.domain.notices.mailing import CONFIRM_HOURS, is_on
from taskhub.domain.notices.mails import LOGGED


@page("task.view")  # every role has it
@sensitive_post_parameters("address")
@sensitive_variables("form", "asked")
@require_http_methods(["GET", "HEAD", "POST"])
def mail(request: ConsoleRequest) -> HttpResponse:
    """What the person gets by mail; a POST stores what they want."""
    if request.method != "POST":
        return _mail(request)
    form = MailForm(request.POST, admin=_admin(request))
    if not form.is_valid():
        return _mail(request, form, status=400)
    try:
        asked = control.choose_mails(request.caller, form.cleaned_data["address"], form.choices)
    except (Invalid, Refused, LimitReached) as error:
        form.refuse(error)
        return _mail(request, form, status=429 if isinstance(error, LimitReached) else 400)
    messages.success(request, f"Saved. A mail to {asked} has a link that confirms it." if asked else "Saved.")
    return redirect("mail")


@page("task.view")
@require_POST
def again(request: ConsoleRequest) -> HttpResponse:
    """Send the mail that asks to confirm the address once more."""
    try:
        messages.success(request, f"Another mail to {control.ask_again(request.caller)} is on its way.")
    except (Refused, LimitReached) as error:
        messages.error(request, error.message)
    return redirect("mail")


@page("task.view")
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: ConsoleRequest, token: str) -> HttpResponse:
    """Ask whether the address of the link is the person's; a POST confirms it. A GET changes nothing: programs that
    look at mails open their links."""
    if request.method == "POST":
        messages.success(request, f"Confirmed. Mails go to {control.confirm_address(request.caller, token)}.")
        return redirect("mail")
    return render(request, "console/mail_confirm.html", {"token": token, "own": control.own_mailing(request.caller)})


@csrf_exempt  # a program that shows the mail sends it, without a cookie (RFC 8058); the token is the permission
@require_http_methods(["GET", "HEAD", "POST"])
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """End all mails to an address, by the link in one of them. A GET asks, and changes nothing."""
    context: dict[str, object] = {"token": token, "hub": settings.PUBLIC_URL}
    try:
        if request.method == "POST":
            context["stopped"] = control.stop_mails(token, address=request.META.get("REMOTE_ADDR") or "")
        else:
            context["address"] = control.mails_of_link(token)
    except NotFound as error:
        context["problem"] = error.message
    response = render(request, "console/mail_stop.html", context, status=404 if "problem" in context else 200)
    add_never_cache_headers(response)
    return response


def _admin(request: ConsoleRequest) -> bool:
    return request.caller.may("settings.view")


def _mail(request: ConsoleRequest, form: MailForm | None = None, *, status: int = 200) -> HttpResponse:
    own = control.own_mailing(request.caller)
    context = {
        "own": own,
        "on": is_on(),
        "form": form or MailForm.of(own, admin=_admin(request)),
        "log": control.own_mails(request.caller),
        "newest": LOGGED,
        "hours": CONFIRM_HOURS,
        "can_decide": request.caller.may("question.approve"),
    }
    return render(request, "console/mail.html", context, status=status)
