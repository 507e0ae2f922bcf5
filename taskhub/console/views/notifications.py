"""What a person is told, when and where: their choices, addresses and log, and the links in messages that confirm an
address and end mails."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from taskhub.console.access import page
from taskhub.console.channels import WORDS, Words
from taskhub.console.forms.notifications import AddressForm, ChoicesForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import notifications as control
from taskhub.control.absences import stands_in_for
from taskhub.core.errors import Invalid, LimitReached, NotFound, Refused
from taskhub.domain.notices.addresses import CONFIRM_HOURS, Own
from taskhub.domain.notices.browsers import MOST, vapid_public
from taskhub.domain.notices.channels import TYPED, Channel, has_push, is_on
from taskhub.domain.notices.people import LOGGED


@dataclass(frozen=True, slots=True)
class Place:
    """A channel, with the address at which it reaches the person."""

    channel: Channel
    words: Words
    on: bool
    own: Own
    form: AddressForm


@page("task.view")  # every role has it
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: ConsoleRequest) -> HttpResponse:
    """What the person is told, when and where; a POST stores what and when."""
    if request.method != "POST":
        return _page(request)
    form = ChoicesForm(request.POST, admin=_admin(request))
    if not form.is_valid():
        return _page(request, form, status=400)
    try:
        quiet = control.choose(request.caller, form.choices)
    except Invalid as error:
        form.refuse(error)
        return _page(request, form, status=400)
    ends = form.choices.quiet_until
    messages.success(request, f"Saved. It is quiet now: no message comes before {ends:%H:%M}." if quiet else "Saved.")
    return redirect("notifications")


@page("task.view")
@require_POST
@sensitive_post_parameters("address")
@sensitive_variables("form", "asked")
def address(request: ConsoleRequest, channel: str) -> HttpResponse:
    """Store where a channel reaches the person."""
    which = _channel(channel)
    form = AddressForm(request.POST, channel=which)
    if not form.is_valid():
        return _page(request, addresses={which: form}, status=400)
    control.begin_in(request.caller, form.cleaned_data["zone"])
    try:
        asked = control.set_address(request.caller, which, form.cleaned_data["address"])
    except (Invalid, Refused, LimitReached) as error:
        form.refuse(error)
        return _page(request, addresses={which: form}, status=429 if isinstance(error, LimitReached) else 400)
    message = WORDS[which].message
    messages.success(request, f"Saved. A {message} to {asked} has a link that confirms it." if asked else "Saved.")
    return redirect("notifications")


@page("task.view")
@require_POST
def again(request: ConsoleRequest, channel: str) -> HttpResponse:
    """Send the message that asks to confirm the address again."""
    which = _channel(channel)
    try:
        to = control.ask_again(request.caller, which)
        messages.success(request, f"Another {WORDS[which].message} to {to} is on its way.")
    except (Refused, LimitReached) as error:
        messages.error(request, error.message)
    return redirect("notifications")


@page("task.view")
@require_POST
def trial(request: ConsoleRequest, channel: str) -> HttpResponse:
    """Send the person a test on the channel."""
    which = _channel(channel)
    try:
        to = control.send_trial(request.caller, which)
        messages.success(request, f"A test to {to} is on its way: below is what comes of it.")
    except (Refused, LimitReached) as error:
        messages.error(request, error.message)
    return redirect(reverse("notifications") + "#log")


@page("task.view")
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: ConsoleRequest, channel: str, token: str) -> HttpResponse:
    """Ask whether the address of the link is the person's; a POST confirms it. A GET changes nothing: programs that
    look at messages open their links."""
    which = _channel(channel)
    own = control.own_addresses(request.caller)[which]
    if request.method == "POST":
        control.confirm_address(request.caller, which, token)
        messages.success(request, f"Confirmed. {WORDS[which].name} goes to {own.pending}.")
        return redirect("notifications")
    context = {"token": token, "own": own, "channel": which, "words": WORDS[which]}
    return render(request, "console/address_confirm.html", context)


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


def _channel(name: str) -> Channel:
    found = next((channel for channel in TYPED if channel == name), None)
    if found is None:
        raise Http404
    return found


def _page(
    request: ConsoleRequest,
    form: ChoicesForm | None = None,
    *,
    addresses: dict[Channel, AddressForm] | None = None,
    status: int = 200,
) -> HttpResponse:
    filled = addresses or {}
    places = []
    for channel, own in control.own_addresses(request.caller).items():
        if channel not in TYPED:
            continue
        at = filled.get(channel) or AddressForm(channel=channel, own=own)
        places.append(Place(channel, WORDS[channel], is_on(channel), own, at))
    context = {
        "form": form or ChoicesForm.of(control.own_choices(request.caller), admin=_admin(request)),
        "places": places,
        "on": any(map(is_on, Channel)),
        "push_on": is_on(Channel.PUSH),
        "has_push": has_push(),
        "browsers": control.own_browsers(request.caller),
        "most_browsers": MOST,
        "vapid": vapid_public() if is_on(Channel.PUSH) else "",
        "log": [(row, WORDS[Channel(row.channel)]) for row in control.own_messages(request.caller)],
        "newest": LOGGED,
        "hours": CONFIRM_HOURS,
        "standing_in": stands_in_for(request.caller),
        "can_decide": request.caller.may("question.answer"),
    }
    return render(request, "console/notifications.html", context, status=status)
