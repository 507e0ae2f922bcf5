"""Settings: people, roles, groups, limits, and the values set in the environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.people import PasswordForm, PersonForm, RoleForm
from taskhub.console.requests import ConsoleRequest
from taskhub.console.views.factors import password_first, password_used
from taskhub.control import factors, people
from taskhub.core import permissions as gate
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.states import Role
from taskhub.domain.people import settings as installation

PERMISSION_WORDS: Final = {
    "task.view": "See tasks, their input and result",
    "task.cancel": "Cancel tasks",
    "task.rerun": "Run tasks again",
    "question.answer": "Answer questions of tools",
    "question.approve": "Approve or reject calls",
    "client.view": "See clients and tokens",
    "client.manage": "Issue and revoke tokens",
    "server.view": "See servers and tools",
    "server.manage": "Connect servers, set policies",
    "worker.view": "See workers",
    "audit.view": "Read the audit log",
    "audit.export": "Export the audit log",
    "settings.view": "People, roles and settings",
}
"""For each permission: what it allows. A permission without words here is shown by its own name."""
ASKED: Final = ("password", "factor", "disable", "remove")
"""Actions on a person that need a confirmation."""


@dataclass(frozen=True, slots=True)
class Made:
    """A generated password, shown once. `again`: it replaces an earlier one."""

    username: str
    password: str
    again: bool = False


@page("settings.view")
@require_safe
def settings_page(request: ConsoleRequest) -> HttpResponse:
    """The whole page; the parameter `person` opens one person's form, and `do` the confirmation of an action on
    them."""
    if query.choice(request, "do", ("factor",)) and (
        found := password_first(request, f"{request.get_full_path()}#confirm")
    ):
        return found
    return _page(request)


@page("settings.view")
@require_POST
@sensitive_variables("password")
def person_add(request: ConsoleRequest) -> HttpResponse:
    """Create an account. Its password is shown only in this response."""
    form = _adding(request.POST)
    if not form.is_valid():
        return _page(request, form, status=400)
    try:
        _, password = people.add_person(request.caller, **form.cleaned_data)
    except (Invalid, Refused) as error:
        form.refuse(error)
        return _page(request, form, status=400)
    return _page(request, made=Made(form.cleaned_data["username"], password))


@page("settings.view")
@require_POST
def person_role(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Change a person's role and groups."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Invalid(" ".join(str(error) for errors in form.errors.values() for error in errors))
    groups = form.cleaned_data["groups"] if "groups" in request.POST else None
    changed = people.set_role(request.caller, pk, form.cleaned_data["role"], groups)
    messages.success(request, "Saved. It takes effect on their next request." if changed else "Nothing to save.")
    return redirect("settings")


@page("settings.view")
@require_POST
def person_disable(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Disable a person's account."""
    done = people.disable_person(request.caller, pk)
    messages.success(request, "Disabled, and signed out everywhere." if done else "They were disabled already.")
    return redirect("settings")


@page("settings.view")
@require_POST
def person_enable(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Enable a person's account again."""
    done = people.enable_person(request.caller, pk)
    messages.success(request, "Enabled. They may sign in again." if done else "They were not disabled.")
    return redirect("settings")


@page("settings.view")
@require_POST
def person_remove(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Remove a person's account."""
    name = people.remove_person(request.caller, pk)
    messages.success(request, f"{name} is removed, and signed out everywhere. What they did stays on record.")
    return redirect("settings")


@page("settings.view")
@require_POST
@sensitive_post_parameters("password")
@sensitive_variables("typed", "password")
def person_password(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Set a person's password. A generated one is shown only in this response."""
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _page(request, asks=form, person_id=pk, status=400)
    typed = form.cleaned_data["password"]
    try:
        name, password = people.set_password(request.caller, pk, typed)
    except Invalid as error:
        form.refuse(error)
        return _page(request, asks=form, person_id=pk, status=400)
    if not typed:
        return _page(request, made=Made(name, password, again=True))
    messages.success(request, f"{name} has the new password, and is signed out everywhere.")
    return redirect("settings")


@page("settings.view")
@require_POST
def person_factor(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Remove a person's second factor. The caller has to type their own password first."""
    if found := password_first(request, f"{reverse('settings')}?person={pk}&do=factor#confirm"):
        return found
    name, done = factors.remove_of(request.caller, pk)
    password_used(request)
    messages.success(request, _unfactored(name) if done else f"{name} had no second factor.")
    return redirect("settings")


def _unfactored(name: str) -> str:
    return f"{name} signs in with the password alone, and is signed out everywhere."


def _adding(data: Any = None) -> PersonForm:
    return PersonForm(data, auto_id="add_%s")


def _page(
    request: ConsoleRequest,
    form: PersonForm | None = None,
    *,
    made: Made | None = None,
    asks: PasswordForm | None = None,
    person_id: int | None = None,
    status: int = 200,
) -> HttpResponse:
    members = installation.members(request.person.tenant_id)
    person_id = person_id or query.number(request, "person")
    editing = next((member for member in members if member.user_id == person_id), None)
    if person_id is not None and editing is None:
        raise NotFound("There is no such person.")
    return render(
        request,
        "console/settings.html",
        {
            "members": members,
            "editing": editing,
            "asking": editing and ("password" if asks else query.choice(request, "do", ASKED)),
            "asks": asks or PasswordForm(),
            "role_form": editing
            and RoleForm(initial={"role": editing.role, "groups": ", ".join(editing.groups)}, auto_id="edit_%s"),
            "roles": list(Role),
            "matrix": matrix(),
            "groups": installation.groups_of(members),
            "limits": installation.limits(),
            "service": installation.service(),
            "form": form or _adding(),
            "made": made,
            "can_audit": request.caller.may("audit.view"),
        },
        status=status,
    )


def matrix() -> list[tuple[str, list[bool]]]:
    """The table of permissions: for each its words, and for each role whether it has the permission."""
    known = set().union(*gate.PERMISSIONS.values())
    ordered = [name for name in PERMISSION_WORDS if name in known] + sorted(known - set(PERMISSION_WORDS))
    return [(PERMISSION_WORDS.get(name, name), [name in gate.PERMISSIONS[role] for role in Role]) for name in ordered]
