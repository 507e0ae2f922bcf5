"""The versions of a tool's definition, and what differs between two of them."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from taskhub.console.access import page
from taskhub.console.changes import changes
from taskhub.console.forms.versions import VersionsForm
from taskhub.console.requests import ConsoleRequest
from taskhub.core.errors import NotFound
from taskhub.domain.catalogue import reads, versions


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
