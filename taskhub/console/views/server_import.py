"""Import servers from a file: read it, show what it would add, ask for what it needs, add it.

Nothing is stored between the steps. The page carries the file, encrypted, because it may contain secrets.
"""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.forms.imports import ImportForm, ImportValuesForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import servers as control
from taskhub.core.errors import Invalid, Refused
from taskhub.domain.catalogue import reads
from taskhub.domain.catalogue.importing import read_servers
from taskhub.domain.catalogue.server_files import ServersFile, servers_of, supposed_values
from taskhub.lib.signing import InvalidToken, Signer

SEALED: Final = "server import"
SECONDS: Final = 3_600
"""Seconds in which the second step has to follow."""


@page("server.manage")
@require_safe
def server_import(request: ConsoleRequest) -> HttpResponse:
    """Ask for the file."""
    return _file_page(request, ImportForm())


@page("server.manage")
@require_POST
def server_import_read(request: ConsoleRequest) -> HttpResponse:
    """Show what a file would add, and ask for the values that it needs."""
    form = ImportForm(request.POST, files=request.FILES)
    if not form.is_valid():
        return _file_page(request, form)
    try:
        return _values_page(request, *_read(request, form.cleaned_data["text"]))
    except Invalid as error:
        form.add_error(None, error.message)
        return _file_page(request, form)


@page("server.manage")
@require_POST
def server_import_add(request: ConsoleRequest) -> HttpResponse:
    """Add the servers of the file that was shown, all of them or none; or, with the parameter `use`, show what the file
    would add if its server is reached in another way."""
    try:
        person, text = _signer().decrypt(SEALED, request.POST.get("sealed", ""))
    except InvalidToken:
        person, text = 0, ""
    if person != request.person.user_id:
        messages.error(request, "What was shown is an hour old, or was shown to somebody else: give the file again.")
        return redirect("server-import")
    if "use" in request.POST:
        return _values_page(request, *_read(request, text, way=request.POST["use"]))
    file = read_servers(text, way=request.POST.get("way", ""))
    form = ImportValuesForm(file, request.POST)
    if not form.is_valid():
        return _values_page(request, file, form)
    try:
        named = read_servers(text, way=file.way, name=form.cleaned_data.get("name", ""))
        given = servers_of(named, form.values())
        control.import_servers(request.caller, given)
    except (Invalid, Refused) as error:
        form.refuse(error)
        return _values_page(request, file, form)
    names = ", ".join(server.name for server in given)
    messages.success(request, f"Added: {names}. Their tools appear when a worker has reached them.")
    return redirect("server-list")


def _file_page(request: ConsoleRequest, form: ImportForm) -> HttpResponse:
    return render(request, "console/server_import.html", {"form": form}, status=400 if form.errors else 200)


def _read(request: ConsoleRequest, text: str, *, way: str = "") -> tuple[ServersFile, ImportValuesForm]:
    file = read_servers(text, way=way)
    sealed = _signer().encrypt(SEALED, [request.person.user_id, text], seconds=SECONDS)
    return file, ImportValuesForm(file, sealed=sealed)


def _values_page(request: ConsoleRequest, file: ServersFile, form: ImportValuesForm) -> HttpResponse:
    there = {row.name for row in reads.server_list(request.person.tenant_id)}
    refused = "" if form.is_bound else _refused(request, file)
    servers = [(server, server.name in there) for server in servers_of(file, None)]
    taken = any(known for _, known in servers)
    context: dict[str, Any] = {
        "file": file,
        "servers": servers,
        "some_taken": taken,
        "refused": refused,
        "form": form,
    }
    return render(request, "console/server_import.html", context, status=400 if form.errors else 200)


def _refused(request: ConsoleRequest, file: ServersFile) -> str:
    """Why the file cannot be imported, whatever values are typed, as a sentence; empty if it can."""
    try:
        control.import_servers(request.caller, servers_of(file, supposed_values(file, {})), dry_run=True)
    except (Invalid, Refused) as error:
        return error.message
    return ""


def _signer() -> Signer:
    return Signer(settings.SECRET_KEY.encode())
