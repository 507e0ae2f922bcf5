"""Pages about the effect of rules: the tools that a client may see and call, and the clients that may call a tool."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.filters import ReachFilters
from taskhub.console.htmx import partial_or_page
from taskhub.console.requests import ConsoleRequest
from taskhub.control import clients
from taskhub.control import rules as control
from taskhub.core.errors import NotFound
from taskhub.domain.catalogue import reads


@page("client.view")
@require_safe
def client_tools(request: ConsoleRequest, pk: int) -> HttpResponse:
    """What a client may see and call: the tools that are offered, with what may happen to its calls. The parameter `q`
    filters them."""
    text, after = query.text(request, "q"), query.number(request, "after")
    client = clients.find_client(request.caller, pk)
    found = control.tools_of_client(request.caller, pk, text=text, after=after)
    return partial_or_page(
        request,
        "console/client_tools.html",
        "list",
        {"client": client, "reached": found, **_paged(request, text, after, found.after)},
    )


@page("client.view")
@require_safe
def tool_callers(request: ConsoleRequest, pk: int, tool: int) -> HttpResponse:
    """Who may call a tool: the clients, with what may happen to their calls. The parameter `q` filters them."""
    tenant_id = request.person.tenant_id
    server = reads.server_detail(tenant_id, pk) if pk < 2**63 else None
    row = next((row for row in reads.server_tools(tenant_id, pk) if row.id == tool), None) if server else None
    if row is None:
        raise NotFound("There is no such tool.")
    text, after = query.text(request, "q"), query.number(request, "after")
    context = {"server": server, "tool": row}
    try:
        found = control.clients_of_tool(request.caller, tool, text=text, after=after)
    except NotFound:
        return render(request, "console/tool_callers.html", {**context, "reached": None})
    return partial_or_page(
        request,
        "console/tool_callers.html",
        "list",
        {**context, "reached": found, **_paged(request, text, after, found.after)},
    )


def _paged(request: ConsoleRequest, text: str, after: int | None, more: int | None) -> dict[str, object]:
    """The template context of one page of a list: its filter, and the links to the first and to the next page."""
    return {
        "q": text,
        "after": after,
        "first": query.url(q=text),
        "next": more and query.url(q=text, after=more),
        "here": query.url(q=text, after=after),
        "filters": ReachFilters({"q": text}),
        "can_edit_rules": request.caller.may("server.manage"),
    }
