"""Webhooks: their list, the page of one with its messages, and what is done with them."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.webhooks import WebhookForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import webhooks as control
from taskhub.core.errors import Invalid, LimitReached, Refused
from taskhub.domain.notices.webhooks import BEFORE_HOURS, COUNTED, MOST

ASKED: Final = ("disable", "remove", "rotate")
"""Actions on a webhook that need a confirmation."""


@page("settings.view")
@require_safe
def webhook_list(request: ConsoleRequest) -> HttpResponse:
    """All webhooks; the parameter `new` opens the form that adds one."""
    return _list(request, WebhookForm() if "new" in request.GET else None)


@page("settings.view")
@require_POST
@sensitive_post_parameters("url")
@sensitive_variables("form", "secret")
def webhook_add(request: ConsoleRequest) -> HttpResponse:
    """Add a webhook. Its secret is shown only in this response."""
    form = WebhookForm(request.POST)
    if not form.is_valid():
        return _list(request, form, status=400)
    try:
        pk, secret = control.add_webhook(request.caller, form.wanted)
    except (Invalid, Refused, LimitReached) as error:
        form.refuse(error)
        return _list(request, form, status=400)
    return _secret(request, pk, secret)


@page("settings.view")
@require_safe
def webhook_detail(request: ConsoleRequest, pk: int) -> HttpResponse:
    """One webhook and its newest messages; `edit` opens its form, and `do` the confirmation of an action."""
    return _detail(request, pk)


@page("settings.view")
@require_POST
@sensitive_post_parameters("url")
@sensitive_variables("form")
def webhook_change(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Change a webhook."""
    form = WebhookForm(request.POST).changing()
    if not form.is_valid():
        return _detail(request, pk, form, status=400)
    try:
        changed = control.change_webhook(request.caller, pk, form.wanted)
    except (Invalid, Refused) as error:
        form.refuse(error)
        return _detail(request, pk, form, status=400)
    messages.success(request, "Saved. It takes effect with the next message." if changed else "Nothing to save.")
    return redirect("webhook-detail", pk)


@page("settings.view")
@require_POST
def webhook_toggle(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Enable or disable a webhook."""
    enabled = request.POST.get("enabled") == "1"
    control.set_webhook_enabled(request.caller, pk, enabled=enabled)
    messages.success(request, "Enabled. It gets what happens from now on." if enabled else "Disabled.")
    return redirect("webhook-detail", pk)


@page("settings.view")
@require_POST
def webhook_remove(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Remove a webhook."""
    messages.success(request, f"{control.remove_webhook(request.caller, pk)} is removed.")
    return redirect("webhook-list")


@page("settings.view")
@require_POST
@sensitive_variables("secret")
def webhook_rotate(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Replace the secret. The new one is shown only in this response."""
    secret = control.renew_webhook_secret(request.caller, pk)
    return _secret(request, pk, secret, again=True)


@page("settings.view")
@require_POST
def webhook_test(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Send a test."""
    try:
        control.test_webhook(request.caller, pk)
    except Refused as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "A test is on its way. What came of it is listed below in a moment.")
    return redirect("webhook-detail", pk)


@page("settings.view")
@require_POST
def webhook_again(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Send a message again."""
    try:
        control.send_again(request.caller, pk, request.POST.get("message", "")[:64])
    except Refused as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "It is sent again, under its id.")
    return redirect("webhook-detail", pk)


def _list(request: ConsoleRequest, form: WebhookForm | None = None, *, status: int = 200) -> HttpResponse:
    context = {"rows": control.list_webhooks(request.caller), "form": form, "most": MOST, "counted": COUNTED}
    return render(request, "console/webhooks.html", context, status=status)


def _detail(request: ConsoleRequest, pk: int, form: WebhookForm | None = None, *, status: int = 200) -> HttpResponse:
    found = control.find_webhook(request.caller, pk)
    if form is None and "edit" in request.GET:
        form = WebhookForm.of(found)
    context: dict[str, Any] = {
        "webhook": found,
        "log": control.webhook_log(request.caller, pk),
        "form": form,
        "counted": COUNTED,
        "asking": query.choice(request, "do", ASKED),
        "hours": BEFORE_HOURS,
        "can_audit": request.caller.may("audit.view"),
    }
    return render(request, "console/webhook.html", context, status=status)


def _secret(request: ConsoleRequest, pk: int, secret: str, *, again: bool = False) -> HttpResponse:
    found = control.find_webhook(request.caller, pk)
    context = {"webhook": found, "secret": secret, "again": again, "hours": BEFORE_HOURS}
    return render(request, "console/webhook_secret.html", context)
