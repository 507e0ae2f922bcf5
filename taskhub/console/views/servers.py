"""Pages about servers, and the policies of their tools."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.http import HttpResponse
from django.shortcuts import redirect, resolve_url
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.forms.credentials import ServerOAuthForm
from taskhub.console.forms.servers import (
    PolicyForm,
    ServerCallsForm,
    ServerDisableForm,
    ServerEditForm,
    ServerForm,
    ServerTokenForm,
)
from taskhub.console.htmx import partial_or_page, wants_partial
from taskhub.console.requests import ConsoleRequest
from taskhub.control import rules
from taskhub.control import servers as control
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.states import OfferKind
from taskhub.domain.catalogue import reads as servers
from taskhub.domain.catalogue.connection_tests import latest_test
from taskhub.domain.catalogue.offer_reads import OfferRow, server_offers
from taskhub.domain.catalogue.reads import ToolRow
from taskhub.domain.clients.verdicts import CallerPage
from taskhub.domain.credentials.reads import GrantRow, grants_of, oauth_of
from taskhub.domain.tasks.removed import live_calls
from taskhub.domain.workers.lines import lines_of
from taskhub.domain.workers.sessions import sessions_at

AT_POLICY: Final = "policy"
"""The extra tag of messages that are shown beside the policy instead of at the top of the page."""

SHOWN_CLIENTS: Final = 10
"""How many clients that may call a tool are shown beside it; another page has all of them."""
SHOWN_OFFERS: Final = 100
"""How many resources the page shows unless the URL asks for all of them."""


@page("server.view")
@require_safe
def server_list(request: ConsoleRequest) -> HttpResponse:
    """Every server of the tenant: whether it can be reached, and what it offers."""
    return _list(request, ServerForm())


@page("server.view")
@require_safe
def server_detail(request: ConsoleRequest, pk: int) -> HttpResponse:
    """One server and its tools; the parameter `tool` opens one of them, `toggle` and `remove` a confirmation."""
    return detail(request, pk, query.number(request, "tool"))


@page("server.manage")
@require_POST
def server_add(request: ConsoleRequest) -> HttpResponse:
    """Add a server."""
    form = ServerForm(request.POST)
    if not form.is_valid():
        return _list(request, form)
    try:
        pk = control.add_server(request.caller, **form.cleaned_data)
    except (Invalid, Refused) as error:
        form.refuse(error)
        return _list(request, form)
    name = form.cleaned_data["name"]
    messages.success(request, f"{name} added. Its tools appear here when a worker has reached it.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_edit(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Change how the server is reached and used."""
    before = servers.server_detail(request.person.tenant_id, id_of(pk))
    if before is None:
        raise NotFound("There is no such server.")
    form = ServerEditForm(before, request.POST)
    if not form.is_valid():
        return detail(request, pk, edit_form=form, status=400)
    edit = form.edit()
    try:
        control.edit_server(request.caller, pk, edit)
    except Invalid as error:
        form.refuse(error)
        return detail(request, pk, edit_form=form, status=400)
    after = servers.server_detail(request.person.tenant_id, pk)
    if after and before.oauth and not after.oauth:
        messages.warning(
            request, "Saved. The authorization by OAuth was for the address of before and is dropped, with its grants."
        )
    elif after and edit.dropped(before, after):
        messages.warning(
            request, "Saved. The token was for the address of before and is dropped: set one if it is needed."
        )
    else:
        messages.success(request, "Saved.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_test(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Have a worker test the connection."""
    control.request_test(request.caller, id_of(pk))
    return redirect(f"{resolve_url('server-detail', pk)}#server-test")


@page("server.manage")
@require_POST
def server_release(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Let pages change a server that only a file of configuration changes."""
    control.release_server(request.caller, id_of(pk))
    messages.success(request, "The server can be changed here, until the file is applied again.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_remove(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Remove the server for good."""
    server = servers.server_detail(request.person.tenant_id, id_of(pk))
    live = control.remove_server(request.caller, pk, confirmed=True)
    name = "The server" if server is None else server.name
    ended = f" Calls that waited for it and have failed: {live.waiting}." if live.waiting else ""
    own = f" Calls that it ran as its own tasks and have failed: {live.deferred}." if live.deferred else ""
    running = f" Calls that run to their end: {live.running}." if live.running else ""
    messages.success(request, f"{name} removed.{ended}{own}{running}")
    return redirect("server-list")


@page("server.manage")
@require_POST
def server_refresh(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Ask a worker to list what the server offers again."""
    control.refresh_server(request.caller, id_of(pk))
    messages.info(request, "Refresh requested. This page updates when a worker has read the server’s lists.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_try(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Let the next call try a server whose breaker is open."""
    asked = control.try_server(request.caller, id_of(pk))
    said = "The next call tries the server now. This page updates with the result."
    messages.info(request, said if asked else "The server’s breaker is closed: there is nothing to try.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_token(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Replace the token that is sent to the server, or remove it."""
    form = ServerTokenForm(request.POST)
    if not form.is_valid():
        return detail(request, pk, token_form=form, status=400)
    token = form.cleaned_data["token"]
    try:
        control.set_server_token(request.caller, id_of(pk), token)
    except Invalid as error:
        form.refuse(error)
        return detail(request, pk, token_form=form, status=400)
    messages.success(
        request,
        "The new token is sent to the server from now on." if token else "No token is sent to the server any more.",
    )
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_calls(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Set how many concurrent calls each worker sends to the server."""
    form = ServerCallsForm(request.POST)
    if not form.is_valid():
        return detail(request, pk, calls_form=form, status=400)
    try:
        control.set_server_calls(request.caller, id_of(pk), form.cleaned_data["calls_at_once"])
    except Invalid as error:
        form.refuse(error)
        return detail(request, pk, calls_form=form, status=400)
    messages.success(request, "Saved. It applies from each worker’s next call.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_toggle(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Enable or disable a server. The tools of a disabled server are hidden from clients, and its queued calls wait."""
    enabled = request.POST.get("enabled") == "1"
    form = ServerDisableForm(request.POST)
    form.is_valid()
    try:
        control.set_server_enabled(request.caller, id_of(pk), enabled=enabled, reason=form.cleaned_data["reason"])
    except Invalid as error:
        form.refuse(error)
        return detail(request, pk, disable_form=form, status=400)
    messages.success(
        request,
        "Server enabled." if enabled else "Server disabled. Its tools are hidden from clients; queued calls wait.",
    )
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def tool_policy(request: ConsoleRequest, pk: int, tool: int) -> HttpResponse:
    """Save a tool's policy, all of it or nothing."""
    row = tool_row(request, pk, tool)
    form = PolicyForm(row, request.POST)
    if not form.is_valid():
        return detail(request, pk, tool, form, status=400)
    try:
        changed = control.set_policy(request.caller, tool, form.policy(), seen=form.cleaned_data["seen"] or None)
    except Invalid as error:
        form.refuse(error)
        return detail(request, pk, tool, form, status=400)
    except Refused as error:
        if "by_file" in error.data:
            raise
        # Somebody else has changed the policy since: show theirs, and drop the input, which was for the older one.
        messages.error(request, error.message, extra_tags=AT_POLICY)
        return detail(request, pk, tool, status=409)
    said = f"Policy of {row.exposed_name} saved." if changed else f"Policy of {row.exposed_name} unchanged."
    messages.success(request, said, extra_tags=AT_POLICY)
    return redirect(f"{resolve_url('server-detail', pk)}?tool={tool}#policy")


def _list(request: ConsoleRequest, form: ServerForm) -> HttpResponse:
    return partial_or_page(
        request,
        "console/servers.html",
        "list",
        {
            "servers": servers.server_list(request.person.tenant_id),
            "form": form,
            "open": bool(form.errors) or "new" in request.GET,
            "can_manage": request.caller.may("server.manage"),
        },
        status=400 if form.errors else 200,
    )


def _reached(request: ConsoleRequest, tool: ToolRow | None) -> CallerPage | None:
    """The first clients of the tool, for people who may see clients; `None` also for a tool that is not offered."""
    if tool is None or wants_partial(request) or not request.caller.may("client.view"):
        return None
    with suppress(NotFound):
        return rules.clients_of_tool(request.caller, tool.id, most=SHOWN_CLIENTS)
    return None


def detail(
    request: ConsoleRequest,
    pk: int,
    tool_id: int | None = None,
    form: PolicyForm | None = None,
    *,
    token_form: ServerTokenForm | None = None,
    calls_form: ServerCallsForm | None = None,
    edit_form: ServerEditForm | None = None,
    disable_form: ServerDisableForm | None = None,
    oauth_form: ServerOAuthForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page of a server, with the forms that were refused."""
    tenant_id = request.person.tenant_id
    server = servers.server_detail(tenant_id, id_of(pk))
    if server is None:
        raise NotFound("There is no such server.")
    tools = servers.server_tools(tenant_id, pk)
    tool = next((row for row in tools if row.id == tool_id), None)
    if tool_id is not None and tool is None:
        raise NotFound("This server has no such tool.")
    prompts, resources, gone_offers = _sorted(server_offers(tenant_id, pk))
    show_all = "all" in request.GET
    shown_rows = len(resources) if show_all else SHOWN_OFFERS
    can_manage = request.caller.may("server.manage")
    can_change = can_manage and not server.by_file
    oauth = oauth_of(server.id) if server.oauth else None
    shown = form or (PolicyForm(tool) if tool is not None else None)
    if shown is not None:
        shown.offer_companions(tools)
    return partial_or_page(
        request,
        "console/server.html",
        "server",
        {
            "server": server,
            "tools": [row for row in tools if not row.rejected and row.gone_at is None],
            "rejected": [row for row in tools if row.rejected and row.gone_at is None],
            "gone": [row for row in tools if row.gone_at is not None],
            "news": _news(tools),
            "news_kind": "warning" if server.waiting else "info",
            "prompts": prompts,
            "resources": resources[:shown_rows],
            "show_all": show_all,
            "more_resources": max(0, len(resources) - shown_rows),
            "resource_count": len(resources),
            "gone_offers": gone_offers,
            "sessions": sessions_at(server.id),
            "lines": lines_of(server.id) if can_manage and server.has_processes else (),
            "can_see_clients": request.caller.may("client.view"),
            "tool": tool,
            "reached": _reached(request, tool),
            "can_edit_rules": can_manage,
            "can_try": request.caller.may("task.rerun"),
            "form": shown,
            "said": [] if wants_partial(request) else _said_at_policy(request),
            "toggling": can_manage and ("toggle" in request.GET or disable_form),
            "disable_form": disable_form or ServerDisableForm(),
            "removing": live_calls(server.id) if can_change and "remove" in request.GET else None,
            "test": latest_test(server.id) if can_manage else None,
            "editing": can_change and ("edit" in request.GET or edit_form),
            "edit_form": edit_form or ServerEditForm(server),
            "setting_token": can_change and server.transport == "http" and ("token" in request.GET or token_form),
            "token_form": token_form or ServerTokenForm(),
            "oauth": oauth,
            "grants": _grants(request, server.id) if oauth else (),
            "setting_oauth": can_change and server.transport == "http" and ("oauth" in request.GET or oauth_form),
            "oauth_form": oauth_form or ServerOAuthForm.of(oauth),
            "setting_calls": can_change and ("calls" in request.GET or calls_form),
            "calls_form": calls_form
            or ServerCallsForm(initial={"calls_at_once": server.calls_at_once if server.calls_said else None}),
            "can_manage": can_manage,
            "can_change": can_change,
            "can_audit": request.caller.may("audit.view"),
        },
        status=status,
    )


def _news(tools: Sequence[servers.ToolRow]) -> str:
    """How many tools are new, changed or gone since a person confirmed what the server offers; empty if none is."""
    counts = [(sum(row.news == news for row in tools), news) for news in ("new", "changed", "gone")]
    return ", ".join(f"{count} {news}" for count, news in counts if count)


def _grants(request: ConsoleRequest, server_id: int) -> tuple[GrantRow, ...]:
    """The grants that the person may see: all with the permission to manage servers; else their own, the one for
    everyone, and, if they may see clients, those of clients."""
    found = grants_of(server_id)
    if request.caller.may("server.manage"):
        return found
    clients, own = request.caller.may("client.view"), request.person.user_id
    return tuple(
        grant for grant in found if grant.shared or grant.user_id == own or (clients and grant.context_id is not None)
    )


def _sorted(offers: Sequence[OfferRow]) -> tuple[list[OfferRow], list[OfferRow], list[OfferRow]]:
    """Prompts; resources, followed by resource templates; offers that the server does not list any more."""
    here = [row for row in offers if row.gone_at is None]
    prompts = [row for row in here if row.kind == OfferKind.PROMPT]
    resources = [row for row in here if row.kind != OfferKind.PROMPT]
    return prompts, sorted(resources, key=lambda row: row.kind), [row for row in offers if row.gone_at is not None]


def _said_at_policy(request: ConsoleRequest) -> list[Message]:
    """The messages that are shown beside the policy instead of at the top of the page."""
    return [message for message in messages.get_messages(request) if message.extra_tags == AT_POLICY]


def tool_row(request: ConsoleRequest, pk: int, tool: int) -> servers.ToolRow:
    """A tool of the server. Raises `NotFound`."""
    rows = servers.server_tools(request.person.tenant_id, id_of(pk))
    found = next((row for row in rows if row.id == tool), None)
    if found is None:
        raise NotFound("There is no such tool.")
    return found


def id_of(pk: int) -> int:
    """The id in the address of a page (`/servers/<pk>/`). Raises `NotFound` for a number that is larger than any id."""
    if pk >= 2**63:
        raise NotFound("There is no such server.")
    return pk
