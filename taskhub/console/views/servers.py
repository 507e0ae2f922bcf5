"""Servers and the policies of their tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, resolve_url
from django.views.decorators.http import require_POST, require_safe

from taskhub.console import query
from taskhub.console.access import page
from taskhub.console.htmx import partial_or_page
from taskhub.console.requests import ConsoleRequest, actor_of
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.policy import Policy
from taskhub.core.states import OfferKind, Role
from taskhub.identity import gate
from taskhub.lib import jsonx
from taskhub.lib.numbers import whole
from taskhub.lifecycle import policies
from taskhub.queries import servers
from taskhub.queries.offers import OfferRow, server_offers

SHOWN_OFFERS: Final = 100
"""Resources on the page until somebody asks for all of them."""
SPARE_CONDITIONS: Final = 2
MODES: Final = (
    ("auto", "Auto: a short wait, then a task handle"),
    ("always", "Always: a task handle at once; who cannot have one waits"),
    ("never", "Never: the caller waits for the result"),
    ("required", "Required: a task or nothing; hidden from clients without tasks"),
)
AUDIENCES: Final = (
    ("client", "The calling client"),
    ("operator", "People in this console"),
    ("either", "Whoever answers first"),
)


@dataclass(frozen=True, slots=True)
class ServerForm:
    """The form for a new server: what was typed, and what is wrong with which field."""

    name: str = ""
    spec: str = ""
    prefix: str = ""
    token: str = ""
    problem: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class PolicyForm:
    """A tool's policy as its form shows it: saved values, or what was typed and is wrong."""

    enabled: bool
    policy_mode: str
    at_least_once: str
    approval: bool
    conditions: tuple[tuple[str, str], ...]
    group: str
    quorum: str
    audience: str
    max_attempts: str
    run_seconds: str
    seen: str
    problem: str = ""
    field: str = ""


@page("server.view")
@require_safe
def server_list(request: ConsoleRequest) -> HttpResponse:
    """Every server: whether it is reached, what it offers."""
    return _list(request, ServerForm())


@page("server.view")
@require_safe
def server_detail(request: ConsoleRequest, pk: int) -> HttpResponse:
    """One server and its tools; `tool` opens one of them, `toggle` asks before disabling."""
    return _detail(request, pk, query.number(request, "tool"), None)


@page("server.manage")
@require_POST
def server_add(request: ConsoleRequest) -> HttpResponse:
    """Connect a server."""
    form = ServerForm(*(request.POST.get(name, "").strip()[:4_200] for name in ("name", "spec", "prefix", "token")))
    try:
        pk = policies.add_server(
            tenant_id=request.person.tenant_id,
            name=form.name,
            spec=form.spec,
            prefix=form.prefix,
            token=form.token,
            actor=actor_of(request),
        )
    except (Invalid, Refused) as error:
        field = str(error.data.get("field", ""))
        return _list(request, replace(form, token="", problem=error.message, field=field))
    messages.success(request, f"{form.name} is added. Its tools appear here as soon as a worker has reached it.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_refresh(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Have the server's tools read again."""
    policies.request_refresh(tenant_id=request.person.tenant_id, server_id=_id(pk), actor=actor_of(request))
    messages.info(request, "Asked for a fresh look at the server. This page changes when it was taken.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_token(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Send another token to the server, or none."""
    token = request.POST.get("token", "").strip()[:4_200]
    try:
        policies.set_server_token(
            tenant_id=request.person.tenant_id, server_id=_id(pk), token=token, actor=actor_of(request)
        )
    except Invalid as error:
        return _detail(request, pk, None, None, token_problem=error.message, status=400)
    messages.success(request, "The server gets the new token." if token else "The server gets no token any more.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def server_toggle(request: ConsoleRequest, pk: int) -> HttpResponse:
    """Offer the server's tools, or stop offering them."""
    enabled = request.POST.get("enabled") == "1"
    policies.set_server_enabled(
        tenant_id=request.person.tenant_id, server_id=_id(pk), enabled=enabled, actor=actor_of(request)
    )
    messages.success(request, "The server is enabled." if enabled else "The server is disabled; its tools are gone.")
    return redirect("server-detail", pk)


@page("server.manage")
@require_POST
def tool_policy(request: ConsoleRequest, pk: int, tool: int) -> HttpResponse:
    """Save a tool's policy: all of it or nothing."""
    row = _tool(request, pk, tool)
    form = _posted(request.POST)
    try:
        changed = policies.set_tool_policy(
            tenant_id=request.person.tenant_id,
            tool_id=tool,
            policy=_policy(form, row),
            seen=form.seen or None,
            actor=actor_of(request),
        )
    except Invalid as error:
        wrong = replace(form, problem=error.message, field=str(error.data.get("field", "")))
        return _detail(request, pk, tool, wrong, status=400)
    except Refused as error:
        now = _saved(_tool(request, pk, tool))
        return _detail(request, pk, tool, replace(now, problem=error.message), status=409)
    messages.success(
        request, f"Policy of {row.exposed_name} saved." if changed else f"Nothing to save for {row.exposed_name}."
    )
    return redirect(f"{resolve_url('server-detail', pk)}?tool={tool}")


def _list(request: ConsoleRequest, form: ServerForm) -> HttpResponse:
    return partial_or_page(
        request,
        "console/servers.html",
        "list",
        {
            "servers": servers.server_list(request.person.tenant_id),
            "form": form,
            "open": bool(form.problem) or "new" in request.GET,
            "can_manage": gate.allows(request.person, "server.manage"),
        },
        status=400 if form.problem else 200,
    )


def _detail(
    request: ConsoleRequest,
    pk: int,
    tool_id: int | None,
    form: PolicyForm | None,
    *,
    token_problem: str = "",
    status: int = 200,
) -> HttpResponse:
    tenant_id = request.person.tenant_id
    server = servers.server_detail(tenant_id, _id(pk))
    if server is None:
        raise NotFound("There is no such server.")
    tools = servers.server_tools(tenant_id, pk)
    tool = next((row for row in tools if row.id == tool_id), None)
    if tool_id is not None and tool is None:
        raise NotFound("This server has no such tool.")
    prompts, resources, gone_offers = _sorted(server_offers(tenant_id, pk))
    show_all = "all" in request.GET
    shown_rows = len(resources) if show_all else SHOWN_OFFERS
    can_manage = gate.allows(request.person, "server.manage")
    shown = form or (_saved(tool) if tool is not None else None)
    return partial_or_page(
        request,
        "console/server.html",
        "server",
        {
            "server": server,
            "tools": [row for row in tools if not row.rejected and row.gone_at is None],
            "rejected": [row for row in tools if row.rejected and row.gone_at is None],
            "gone": [row for row in tools if row.gone_at is not None],
            "prompts": prompts,
            "resources": resources[:shown_rows],
            "show_all": show_all,
            "more_resources": max(0, len(resources) - shown_rows),
            "resource_count": len(resources),
            "gone_offers": gone_offers,
            "tool": tool,
            "form": shown,
            "blank": range(SPARE_CONDITIONS),
            "modes": MODES,
            "audiences": AUDIENCES,
            "approvers": _too_few(tenant_id, tool) if can_manage else None,
            "groups": servers.known_groups(tenant_id) if tool is not None else (),
            "toggling": can_manage and "toggle" in request.GET,
            "setting_token": can_manage and server.transport == "http" and ("token" in request.GET or token_problem),
            "token_problem": token_problem,
            "can_manage": can_manage,
            "can_audit": gate.allows(request.person, "audit.view"),
        },
        status=status,
    )


def _sorted(offers: Sequence[OfferRow]) -> tuple[list[OfferRow], list[OfferRow], list[OfferRow]]:
    """Prompts; resources with the templates after them; what is gone."""
    here = [row for row in offers if row.gone_at is None]
    prompts = [row for row in here if row.kind == OfferKind.PROMPT]
    resources = [row for row in here if row.kind != OfferKind.PROMPT]
    return prompts, sorted(resources, key=lambda row: row.kind), [row for row in offers if row.gone_at is not None]


def _too_few(tenant_id: int, tool: servers.ToolRow | None) -> int | None:
    """How many people could approve, when they are fewer than the saved policy wants."""
    if tool is None or not tool.approval:
        return None
    roles = [role for role in Role if "question.approve" in gate.PERMISSIONS[role]]
    found = servers.approvers(tenant_id, tool.approval_group, roles)
    return found if found < tool.approval_quorum else None


def _tool(request: ConsoleRequest, pk: int, tool: int) -> servers.ToolRow:
    rows = servers.server_tools(request.person.tenant_id, _id(pk))
    found = next((row for row in rows if row.id == tool), None)
    if found is None:
        raise NotFound("There is no such tool.")
    return found


def _id(pk: int) -> int:
    if pk >= 2**63:
        raise NotFound("There is no such server.")
    return pk


def _saved(tool: servers.ToolRow) -> PolicyForm:
    return PolicyForm(
        enabled=tool.enabled,
        policy_mode=tool.policy_mode or "",
        at_least_once={None: "", True: "yes", False: "no"}[tool.policy_at_least_once],
        approval=tool.approval,
        conditions=tuple((name, _shown(value)) for name, value in tool.approval_when.items()),
        group=tool.approval_group,
        quorum=str(tool.approval_quorum),
        audience=tool.question_audience or "",
        max_attempts=str(tool.max_attempts),
        run_seconds=str(tool.run_seconds),
        seen=tool.seen,
    )


def _posted(post: QueryDict) -> PolicyForm:
    def one(name: str) -> str:
        return post.get(name, "").strip()[:100]

    pairs = zip(post.getlist("when_name"), post.getlist("when_value"), strict=False)
    return PolicyForm(
        enabled="enabled" in post,
        policy_mode=one("policy_mode"),
        at_least_once=one("at_least_once"),
        approval="approval" in post,
        conditions=tuple(
            (name.strip()[:200], value.strip()[:2_000]) for name, value in pairs if name.strip() or value.strip()
        )[:50],
        group=one("approval_group"),
        quorum=one("approval_quorum"),
        audience=one("question_audience"),
        max_attempts=one("max_attempts"),
        run_seconds=one("run_seconds"),
        seen=one("seen"),
    )


def _policy(form: PolicyForm, tool: servers.ToolRow) -> Policy:
    """The typed form as a policy. Raises `Invalid` naming the field."""
    if form.at_least_once not in ("", "yes", "no"):
        raise Invalid("Choose yes, no, or as the tool says.", field="at_least_once")
    return Policy(
        enabled=form.enabled,
        policy_mode=form.policy_mode or None,
        policy_at_least_once={"": None, "yes": True, "no": False}[form.at_least_once],
        approval=form.approval,
        approval_when=_conditions(form, tool.argument_types),
        approval_group=form.group,
        approval_quorum=_whole(form.quorum, "approval_quorum"),
        question_audience=form.audience or None,
        max_attempts=_whole(form.max_attempts, "max_attempts"),
        run_seconds=_whole(form.run_seconds, "run_seconds"),
    )


def _conditions(form: PolicyForm, types: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in form.conditions:
        if not name:
            raise Invalid(f"Name the argument whose value is {text[:60]!r}.", field="approval_when")
        if name in found:
            raise Invalid(f"The argument {name} has two conditions; one value can be given.", field="approval_when")
        if types and name not in types:
            # A condition on an argument that does not exist never holds: nothing would be approved.
            raise Invalid(
                f"The tool has no argument {name[:60]}; it has {', '.join(list(types)[:20])}.", field="approval_when"
            )
        found[name] = _value(text, types.get(name, ""))
        if types.get(name) in _JSON_TYPES and not _fits(found[name], types[name]):
            raise Invalid(f"{name} is of type {types[name]}; {text[:60]!r} is not.", field="approval_when")
    return found


_JSON_TYPES: Final = {"integer": (int,), "number": (int, float), "boolean": (bool,)}


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _JSON_TYPES[kind])


def _value(text: str, kind: str) -> Any:
    """What was typed, as the argument's type reads it: text stays text where text is expected,
    else JSON where it is JSON.
    """
    if kind == "string":
        return text
    try:
        return jsonx.decode(text.encode("utf-8", "replace"))
    except jsonx.JsonError:
        return text


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _whole(text: str, field: str) -> int:
    number = whole(text, most=999_999_999)
    if number is None:
        raise Invalid(f"Give a whole number, not {text[:20]!r}.", field=field)
    return number
