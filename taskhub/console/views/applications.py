"""Pages about applications: the programs that people sign in with, and the consents of people to them."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.access import ApplicationForm, NewApplicationForm
from taskhub.console.htmx import leave, partial_or_page, wants_partial
from taskhub.console.requests import ConsoleRequest
from taskhub.control import applications as control
from taskhub.core.errors import Invalid, NotFound
from taskhub.domain.address import base_url
from taskhub.domain.oauth import reads as applications


@page("client.view")
@require_safe
def application_list(request: ConsoleRequest) -> HttpResponse:
    """Every application of the tenant."""
    return _list(request, NewApplicationForm(), opened="new" in request.GET)


@page("client.manage")
@require_POST
@sensitive_variables("secret")
def application_add(request: ConsoleRequest) -> HttpResponse:
    """Register an application. Its secret, if it has one, is shown only in this response."""
    form = NewApplicationForm(request.POST)
    if not form.is_valid():
        return _list(request, form, opened=True, status=400)
    try:
        pk, secret = control.add_application(
            request.caller,
            name=form.cleaned_data["name"],
            redirects=form.addresses,
            confidential=form.confidential,
        )
    except Invalid as error:
        form.refuse(error)
        return _list(request, form, opened=True, status=400)
    if not secret:
        messages.success(request, f"{form.cleaned_data['name']} is registered. Give it the client id below.")
        return redirect("application-detail", pk)
    return _secret(request, pk, secret)


@page("client.view")
@require_safe
def application_detail(request: ConsoleRequest, pk: int) -> HttpResponse:
    """One application; the parameters `toggle`, `remove`, `secret` and `revoke` open a confirmation."""
    try:
        found = control.find_application(request.caller, pk)
    except NotFound:
        if wants_partial(request):  # the application was removed after the page was opened
            return leave(request, reverse("application-list"))
        raise
    return _detail(request, found, _form(found))


@page("client.manage")
@require_POST
def application_change(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Change the name and the redirect URIs."""
    found, form = control.find_application(request.caller, pk), ApplicationForm(request.POST)
    if not form.is_valid():
        return _detail(request, found, form, status=400)
    try:
        changed = control.change_application(
            request.caller, pk, name=form.cleaned_data["name"], redirects=form.addresses
        )
    except Invalid as error:
        form.refuse(error)
        return _detail(request, found, form, status=400)
    messages.success(request, "Saved. It takes effect at the next sign-in." if changed else "Nothing to save.")
    return redirect("application-detail", pk)


@page("client.manage")
@require_POST
@sensitive_variables("secret")
def application_secret(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Replace the secret. The new one is shown only in this response."""
    control.find_application(request.caller, pk)
    secret = control.renew_secret(request.caller, pk)
    return _secret(request, pk, secret)


@page("client.manage")
@require_POST
def application_toggle(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Block an application for everybody, or unblock it."""
    found, blocked = control.find_application(request.caller, pk), request.POST.get("blocked") == "1"
    control.set_application_locked(request.caller, pk, locked=blocked)
    messages.success(
        request, f"{found.name} is locked out for everybody." if blocked else f"{found.name} may sign people in again."
    )
    return redirect("application-detail", pk)


@page("client.manage")
@require_POST
def application_remove(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Delete an application with its consents and tokens."""
    found = control.find_application(request.caller, pk)
    control.remove_application(request.caller, pk)
    messages.success(request, f"{found.name} is removed, and signed out everywhere.")
    return redirect("application-list")


@page("client.manage")
@require_POST
def consent_revoke(request: ConsoleRequest, pk: int, consent: int) -> HttpResponse:
    """Revoke a person's consent to the application."""
    control.revoke_consent(request.caller, pk, consent)
    messages.success(request, "Revoked. Its tokens for that person are refused from now on.")
    return redirect("application-detail", pk)


def _list(request: ConsoleRequest, form: ApplicationForm, *, opened: bool, status: int = 200) -> HttpResponse:
    return partial_or_page(
        request,
        "console/applications.html",
        "list",
        {
            "rows": applications.application_rows(request.person.tenant_id),
            "form": form,
            "open": opened,
            "on": settings.TASKHUB_OAUTH,
            "issuer": settings.OIDC_ISSUER,
            "can_manage": request.caller.may("client.manage"),
        },
        status=status,
    )


def _detail(
    request: ConsoleRequest, found: applications.ApplicationRow, form: ApplicationForm, *, status: int = 200
) -> HttpResponse:
    can_manage = request.caller.may("client.manage")
    people = applications.consent_rows(request.person.tenant_id, found.id)
    revoking = query.number(request, "revoke") if can_manage else None
    return partial_or_page(
        request,
        "console/application.html",
        "application",
        {
            "application": found,
            "people": people,
            "form": form,
            "editing": can_manage and found.manual and ("edit" in request.GET or bool(form.errors)),
            "revoking": next((row for row in people if row.id == revoking), None),
            "asking": next((name for name in ("toggle", "remove", "secret") if can_manage and name in request.GET), ""),
            "can_manage": can_manage,
            "can_audit": request.caller.may("audit.view"),
        },
        status=status,
    )


def _secret(request: ConsoleRequest, pk: int, secret: str) -> HttpResponse:
    return render(
        request,
        "console/application_secret.html",
        {"application": control.find_application(request.caller, pk), "secret": secret, "issuer": base_url(request)},
    )


def _form(found: applications.ApplicationRow) -> ApplicationForm:
    return ApplicationForm(initial={"name": found.own_name, "redirects": "\n".join(found.redirects)})
