"""Things to test with, made the way the product makes them: tasks only through the lifecycle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from taskhub.core.records import Actor, Claim, NewQuestion, NewTask, Person, TaskRecord, ToolRecord
from taskhub.core.rules import Client, Rule, Then, Verdict
from taskhub.core.states import Audience, Door, QuestionKind, Role
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.clients.principals import person_of
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.rules.written import Comparison, of_argument, of_tool
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import create_task
from taskhub.domain.tasks.reads import task_by_id
from taskhub.store.models import AuthContext, Event, Membership, Server, Task, Tenant, Tool

PASSWORD = "correct horse battery staple"
WORKER = Actor(name="worker-1", door=Door.WORKER)
ROOT = Actor(name="root", door=Door.CLI)
FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name"}, "sure": {"type": "boolean", "title": "Sure"}},
    "required": ["name"],
}

_number = itertools.count(1)


def make_tenant(slug: str = "") -> Tenant:
    """A tenant of its own."""
    slug = slug or f"tenant-{next(_number)}"
    return Tenant.objects.create(slug=slug, name=slug.title())


def make_user(username: str = "") -> User:
    """A user without any role; the password is `PASSWORD`."""
    return User.objects.create_user(username or f"user-{next(_number)}", password=PASSWORD)


def make_person(
    role: Role | str, tenant: Tenant | None = None, *, username: str = "", groups: list[str] | None = None
) -> Person:
    """A user with a role, who has had it for a day, in a tenant of their own unless one is given."""
    user = make_user(username or f"{role}-{next(_number)}")
    Membership.objects.create(
        tenant=tenant or make_tenant(),
        user=user,
        role=str(role),
        groups=groups or [],
        granted_at=timezone.now() - timedelta(days=1),
    )
    person = person_of(user.pk, user.username)
    assert person is not None
    return person


def make_context(tenant: Tenant, name: str = "") -> AuthContext:
    """A client."""
    name = name or f"agent-{next(_number)}"
    return AuthContext.objects.create(tenant=tenant, issuer="taskhub", subject=name, client_id=name, name=name)


def make_server(tenant: Tenant, name: str = "") -> Server:
    """A connected server without tools."""
    return Server.objects.create(
        tenant=tenant, name=name or f"server-{next(_number)}", transport="python", target="demo:server", state="ready"
    )


def add_rules(tenant_id: int, *rules: Rule) -> None:
    """Add these rules at the end of the tenant's list."""
    listed = present(tenant_id)
    save_rules(tenant_id, [*listed.rules, *rules], expected=listed.version, reason="", actor=ROOT)


def asking_about(tool: ToolRecord, *, when: Mapping[str, Any] | None = None, **fields: Any) -> Rule:
    """A rule that asks about calls of the tool; with `when`, about those whose arguments are like these values."""
    conditions = [of_tool(tool.server_name, tool.name)]
    conditions += [of_argument(name, Comparison.LIKE, value) for name, value in (when or {}).items()]
    name = f"{tool.server_name}/{tool.name}"
    return Rule(name=name, when=" && ".join(conditions), then=Then.ASK, **fields)


def make_tool(server: Server, name: str = "", *, asks: Mapping[str, Any] | None = None, **policy: Any) -> ToolRecord:
    """A tool; `policy` are columns of its row. With `asks`, what `asking_about` takes, a rule asks about its calls."""
    name = name or f"tool-{next(_number)}"
    row = Tool.objects.create(
        server=server,
        name=name,
        exposed_name=policy.pop("exposed_name", name),
        definition={"name": name, "inputSchema": {"type": "object"}},
        digest="0" * 64,
        confirmed_digest="0" * 64,
        **policy,
    )
    tool = tool_by_id(row.pk)
    assert tool is not None
    if asks is not None:
        add_rules(server.tenant_id, asking_about(tool, **asks))
    return tool


def make_question(kind: QuestionKind = QuestionKind.ELICITATION, **changes: Any) -> NewQuestion:
    """A question for people; `changes` replace fields."""
    params: dict[QuestionKind, dict[str, Any]] = {
        QuestionKind.ELICITATION: {"message": "Who are you?", "requestedSchema": FORM},
        QuestionKind.SAMPLING: {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Sum this up"}}],
            "maxTokens": 100,
        },
        QuestionKind.ROOTS: {},
        QuestionKind.APPROVAL: {"tool": "deploy", "server": "demo", "rule": {}},
        QuestionKind.AUTHORIZATION: {"server": "demo", "message": "Server demo needs to be authorized"},
        QuestionKind.OUTCOME: {
            "tool": "deploy",
            "server": "demo",
            "why": "worker_lost",
            "told": "The worker was lost while the tool ran: outcome unknown",
            "worker": "host:1",
            "attempt": 1,
            "began": "2026-01-01T10:00:00+00:00",
            "lost": "2026-01-01T10:01:00+00:00",
        },
    }
    fields: dict[str, Any] = {
        "key": f"q{next(_number)}",
        "kind": kind,
        "params": params[kind],
        "audience": Audience.OPERATOR,
        "upstream_key": "ask",
    }
    return NewQuestion(**{**fields, **changes})


def verdict_on(context: AuthContext, tool: ToolRecord, arguments: Mapping[str, Any]) -> Verdict:
    """What the rules in force say of the client's call."""
    client = Client(context.pk, context.name, context.issuer, context.subject, context.client_id, None)
    listed = Rules(present(context.tenant_id))
    return listed.decide(client, tool, arguments, program="", now=datetime.now(UTC))


def make_task(
    context: AuthContext,
    tool: ToolRecord | None = None,
    *,
    state: str = "queued",
    arguments: dict[str, Any] | None = None,
    question: NewQuestion | None = None,
    result: dict[str, Any] | None = None,
    **new: Any,
) -> TaskRecord:
    """A task in `state` (also `finished-error`), brought there by the lifecycle."""
    tool = tool or make_tool(make_server(context.tenant))
    actor = Actor(name=context.name, door=Door.CLIENT, context_id=context.pk)
    arguments = arguments if arguments is not None else {"text": "hello"}
    task = create_task(
        NewTask(
            tenant_id=context.tenant_id,
            context_id=context.pk,
            tool=tool,
            arguments=arguments,
            **{"revision": "2026-07-28", "verdict": verdict_on(context, tool, arguments), **new},
        ),
        actor,
    ).task
    if state == "cancelled":
        request_cancel(task.id, actor=actor)
    elif state != "queued" and task.state == "queued":
        claim = claim_task(task)
        if state == "input_required":
            asked = question or make_question()
            run.ask(claim, [asked], upstream_state="s", message="Waiting for an answer", live=False, actor=WORKER)
        elif state == "finished":
            run.finish(claim, result or {"content": [{"type": "text", "text": "done"}]}, actor=WORKER)
        elif state == "finished-error":
            body = {"content": [{"type": "text", "text": "it broke"}], "isError": True}
            run.finish(claim, result or body, actor=WORKER)
        elif state == "faulted":
            run.fault(claim, {"code": -32603, "message": "boom"}, actor=WORKER)
    stored = task_by_id(task.id)
    assert stored is not None
    return stored


def claim_task(task: TaskRecord, worker: str = "worker-1") -> Claim:
    """Claim exactly this task, whatever else is queued."""
    later = timezone.now() + timedelta(days=2)
    others = list(Task.objects.filter(state="queued").exclude(pk=task.id).values_list("pk", "runnable_at"))
    Task.objects.filter(pk__in=[pk for pk, _ in others]).update(runnable_at=later)
    (claim,) = run.claim_tasks(worker=worker, limit=1, lease_seconds=60, per_context=10_000, actor=WORKER).tasks
    for pk, at in others:
        Task.objects.filter(pk=pk).update(runnable_at=at)
    assert claim.task_id == task.id
    return claim


def make_event(tenant: Tenant, action: str = "thing.done", **parts: Any) -> int:
    """An entry of the audit log; its id."""
    made = {"actor": "mia", "door": Door.WEB, "address": "10.1.2.3", "target": "it", **parts}
    return int(Event.objects.create(tenant=tenant, action=action, **made).pk)
