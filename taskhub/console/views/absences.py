"""A person's absence: until when they are away, and who decides for them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from taskhub.console.access import page
from taskhub.console.forms.absences import AbsenceForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import absences as control
from taskhub.control.notifications import own_choices
from taskhub.core.errors import Invalid, Refused


@page("task.view")  # every role has it
@require_http_methods(["GET", "HEAD", "POST"])
def absence(request: ConsoleRequest) -> HttpResponse:
    """Until when the person is away, and who decides for them; a POST stores both."""
    away, deputies = control.own_absence(request.caller), control.possible_deputies(request.caller)
    if request.method != "POST":
        form = AbsenceForm.of(away, zone=own_choices(request.caller).zone, deputies=deputies)
        return render(request, "console/absence.html", {"away": away, "form": form})
    form = AbsenceForm(request.POST, deputies=deputies)
    try:
        if form.is_valid():
            control.go_away(request.caller, form.ends_at, form.cleaned_data.get("deputy", ""))
            messages.success(request, "Saved. You are away.")
            return redirect("account")
    except Invalid as error:
        form.refuse(error)
    return render(request, "console/absence.html", {"away": away, "form": form}, status=400)


@page("task.view")
@require_POST
def back(request: ConsoleRequest) -> HttpResponse:
    """End the person's absence."""
    try:
        control.come_back(request.caller)
        messages.success(request, "You are back: nobody decides for you any more, and messages come.")
    except Refused as error:
        messages.info(request, error.message)
    return redirect("account")
