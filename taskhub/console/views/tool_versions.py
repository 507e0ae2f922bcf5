"""Changes of servers: the versions of a tool, and the tools that a person has not confirmed yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from taskhub.console.access import page
from taskhub.console.changes import Changes, changes
from taskhub.console.forms.versions import VersionsForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import servers as control
from taskhub.core.errors import NotFound, Refused
from taskhub.domain.catalogue import reads, versions
from taskhub.domain.catalogue.confirmations import shown_as
from taskhub.domain.catalogue.reads import ToolRow
from taskhub.lib.numbers import whole

SHOWN: Final = 50
"""How many tools the page of a server's changes shows; the others follow when these are confirmed."""


@dataclass(frozen=True, slots=True)
class Different:
    """A tool that is new, changed or gone. `seen`: the tool's id and the digest of what the page shows, as text.
    `changed`: the differences from the definition that was last confirmed, if that is kept."""

    tool: ToolRow
    seen: str
    before: dict[str, Any] | None
    changed: Changes | None


@page("server.view")
@require_safe
def tool_versions(request: ConsoleRequest, pk: int, tool: int) -> HttpResponse:
    """The versions of one tool; the parameters `before` and `after` choose two, to be compared."""
    tenant_id = request.person.tenant_id
    server = reads.server_detail(tenant_id, pk) if pk < 2**63 else None
    row = next((found for found in reads.server_tools(tenant_id, pk) if found.id == tool), None) if server else None
    if server is None or row is None:
        raise NotFound("There is no such tool.")
    kept = versions.tool_versions(tenant_id, tool)
    form = VersionsForm(kept, request.GET) if kept else None
    before, after = form.versions if form else (None, None)
    return render(
        request,
        "console/tool_versions.html",
        {
            "server": server,
            "tool": row,
            "versions": kept,
            "most": versions.MAX_VERSIONS,
            "form": form,
            "before": before,
            "after": after,
            "changed": changes(before.definition, after.definition) if before and after and before != after else None,
        },
    )


@page("server.view")
@require_safe
def server_changes(request: ConsoleRequest, pk: int) -> HttpResponse:
    """The tools of a server that are new, changed or gone, with the differences."""
    return _changes(request, pk)


@page("server.manage")
@require_POST
def server_confirm(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Confirm tools as they were shown: `seen` has their ids and digests."""
    pairs = [pair.partition(":") for pair in request.POST.get("seen", "").split(",")[: 2 * SHOWN]]
    seen = {whole(tool) or 0: shown for tool, _, shown in pairs}
    try:
        done = control.confirm_tools(request.caller, pk if pk < 2**63 else 0, seen)
    except Refused as error:
        messages.error(request, error.message)
        return _changes(request, pk, status=409)
    messages.success(
        request, f"Confirmed: {done}." if done else "Somebody had confirmed that already: nothing was left to do."
    )
    return redirect("server-changes", pk)


def _changes(request: ConsoleRequest, pk: int, *, status: int = 200) -> HttpResponse:
    tenant_id = request.person.tenant_id
    server = reads.server_detail(tenant_id, pk) if pk < 2**63 else None
    if server is None:
        raise NotFound("There is no such server.")
    found = [row for row in reads.server_tools(tenant_id, pk) if row.news]
    before = versions.confirmed_definitions(tenant_id, pk)
    shown = [_different(row, before.get(row.id)) for row in found[:SHOWN]]
    return render(
        request,
        "console/server_changes.html",
        {
            "server": server,
            "found": shown,
            "more": len(found) - len(shown),
            "all": ",".join(one.seen for one in shown),
            "can_manage": request.caller.may("server.manage"),
        },
        status=status,
    )


def _different(row: ToolRow, before: dict[str, Any] | None) -> Different:
    changed = changes(before, row.definition) if row.news == "changed" and before is not None else None
    return Different(row, f"{row.id}:{shown_as(row.digest, gone=row.gone_at is not None)}", before, changed)
