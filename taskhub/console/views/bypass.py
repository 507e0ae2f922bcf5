"""Bypass: the page on which one is begun, the banner of every page, and the button that ends it."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.forms.bypass import BypassForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import rules as control
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.domain.catalogue.view import catalogue
from taskhub.lib.numbers import whole

BACK: Final = "bypass"


@page("task.view")
@require_safe
def banner(request: ConsoleRequest) -> HttpResponse:
    """The banner about the bypass in force, as every page has it."""
    return render(request, "parts/bypass.html", {"person": request.person})


@page("server.view")
@require_http_methods(["GET", "HEAD", "POST"])
def bypass(request: ConsoleRequest) -> HttpResponse:
    """The newest bypasses, and the form that begins one."""
    form = BypassForm(request.POST if request.method == "POST" else None)
    form.offer_servers((one.id, one.name) for one in catalogue(request.person.tenant_id).upstreams)
    if request.method != "POST":
        return _page(request, form)
    if not form.is_valid():
        return _page(request, form, status=400)
    given = form.cleaned_data
    try:
        begun = control.begin_bypass(
            request.caller, minutes=given["minutes"], reason=given["reason"], server_id=form.server_id
        )
    except Invalid as error:
        form.refuse(error)
        return _page(request, form, status=400)
    except (Refused, NotFound) as error:
        form.add_error(None, error.message)
        return _page(request, form, status=409)
    of = f" of {begun.server}" if begun.server else ""
    messages.success(
        request, f"Nobody is asked about calls{of} until {begun.ends_at:%H:%M} UTC, except about critical ones."
    )
    return redirect(BACK)


@page("server.manage")
@require_POST
def end(request: ConsoleRequest) -> HttpResponse:
    """End the bypass that the field `bypass` names."""
    number = whole(request.POST.get("bypass", ""), most=2**63 - 1)
    if number is None:
        raise Invalid("Say which bypass is to end.")
    try:
        control.end_bypass(request.caller, number)
    except Refused as error:
        messages.info(request, error.message)
    else:
        messages.success(request, "The bypass is over: people are asked again.")
    return redirect(BACK)


def _page(request: ConsoleRequest, form: BypassForm, *, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "bypasses": control.bypasses(request.caller),
        "can_manage": request.caller.may("server.manage"),
        "may_see_audit": request.caller.may("audit.view"),
    }
    return render(request, "console/bypass.html", context, status=status)
