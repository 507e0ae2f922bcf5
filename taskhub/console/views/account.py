"""A person's own account: what their role permits, and the applications that act for them."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.channels import WORDS
from taskhub.console.forms.access import CONSENT_WORDS
from taskhub.console.htmx import partial_or_page
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.factors import password_first
from taskhub.console.views.settings import PERMISSION_WORDS
from taskhub.control.absences import own_absence, stands_in_for
from taskhub.control.applications import revoke_own_consent
from taskhub.control.factors import own_factor
from taskhub.control.notifications import own_addresses, own_choices
from taskhub.core import permissions as gate
from taskhub.domain.address import resource_of
from taskhub.domain.notices.channels import channels_on, is_on
from taskhub.domain.oauth import reads as applications


@page("task.view")  # every role has it
@require_safe
def account(request: ConsoleRequest) -> HttpResponse:
    """The account of the signed-in person. The parameter `revoke` opens a confirmation, and so does `do`: with `codes`
    to make new recovery codes, with `remove` to remove their second factor."""
    person = request.person
    may = gate.grantable(person.role)
    allowed = [
        (row, [(CONSENT_WORDS[scope][0], scope in may) for scope in row.scopes])
        for row in applications.allowed_rows(person.tenant_id, person.user_id)
    ]
    revoking = query.number(request, "revoke")
    choices, addresses = own_choices(request.caller), own_addresses(request.caller)
    factor, asking = own_factor(request.caller), query.choice(request, "do", ("codes", "remove"))
    if factor is not None and asking and (found := password_first(request, f"{request.get_full_path()}#confirm")):
        return found
    return partial_or_page(
        request,
        "console/account.html",
        "allowed",
        {
            "allowed": allowed,
            "revoking": next((row for row, _ in allowed if row.id == revoking), None),
            "may": [words for name, words in PERMISSION_WORDS.items() if request.caller.may(name)],
            "factor": factor,
            "notices_on": bool(channels_on()),
            "choices": choices,
            "places": [(WORDS[channel], own) for channel, own in addresses.items() if is_on(channel)],
            "reached": bool(choices.kinds) and any(own.address for channel, own in addresses.items() if is_on(channel)),
            "away": own_absence(request.caller),
            "standing_in": stands_in_for(request.caller),
            "asking": factor and asking,
            "on": settings.TASKHUB_OAUTH,
            "resource": resource_of(request),
        },
    )


@page("task.view")
@require_POST
def allowed_revoke(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Revoke the person's own consent to an application."""
    name = revoke_own_consent(request.caller, pk)
    messages.success(request, f"Revoked. {name} is signed out, and has to ask you again.")
    return redirect("account")
