"""The guards as an SQL client of the application's role meets them: no Django in between."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from taskhub.core.states import TERMINAL, State

Raw = psycopg.Connection[tuple[Any, ...]]
ERROR = '{"code":-32603,"message":"boom"}'

_number = itertools.count(1)


def connect(**options: Any) -> Raw:
    """A connection of its own, as the role the application uses."""
    settings = connection.settings_dict
    return psycopg.connect(
        host=str(settings["HOST"]), user=str(settings["USER"]), dbname=str(settings["NAME"]), **options
    )


@dataclass(frozen=True)
class Owner:
    """The rows a task needs."""

    tenant: int
    context: int
    server: int
    tool: int


def insert(raw: Raw, table: str, **values: Any) -> int:
    """One row; returns its id."""
    query = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING id").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(sql.Placeholder() * len(values)),
    )
    row = raw.execute(query, list(values.values())).fetchone()
    assert row is not None
    return int(row[0])


def owner(raw: Raw) -> Owner:
    n = next(_number)
    tenant = insert(raw, "tenant", slug=f"raw-{n}", name="Raw")
    context = insert(raw, "auth_context", tenant_id=tenant, subject=f"agent-{n}", name="Agent")
    server = insert(raw, "server", tenant_id=tenant, name="demo", transport="python", target="x:y")
    tool = insert(raw, "tool", server_id=server, name="echo", exposed_name="echo", definition="{}", digest="0" * 64)
    return Owner(tenant, context, server, tool)


def task(raw: Raw, of: Owner | None = None, state: State = State.QUEUED, *, born: str = "", **values: Any) -> int:
    """A task in `state`, brought there by legal statements."""
    of = of or owner(raw)
    born = born or ("input_required" if state is State.INPUT_REQUIRED else "queued")
    given = {
        "public_id": secrets.token_urlsafe(24),
        "tenant_id": of.tenant,
        "context_id": of.context,
        "tool_id": of.tool,
        "tool_name": "echo",
        "revision": "2026-07-28",
        "arguments": json.dumps({"text": "hello"}),
        "arguments_digest": bytes(32),
        "state": born,
        "ttl_ms": 60_000,
    }
    made = insert(raw, "task", **{**given, **values})
    if state is State.INPUT_REQUIRED:
        question(raw, made, of.tenant)
    if state in (State.WORKING, State.FINISHED, State.FAULTED):
        raw.execute(
            "UPDATE task SET state = 'working', lease_epoch = lease_epoch + 1, worker = 'w',"
            " lease_until = clock_timestamp() + interval '1 minute' WHERE id = %s",
            (made,),
        )
    if state in TERMINAL:
        move(raw, made, state)
    return made


def move(raw: Raw, task_id: int, state: str) -> None:
    """Set the state together with everything that the constraints tie to it."""
    ended = state in ("finished", "faulted", "cancelled")
    raw.execute(
        "UPDATE task SET state = %s, result = %s, error = %s, ended_at = CASE WHEN %s THEN clock_timestamp() END,"
        " lease_until = CASE WHEN %s THEN lease_until END WHERE id = %s",
        (
            state,
            "{}" if state == "finished" else None,
            ERROR if state == "faulted" else None,
            ended,
            state in ("working", "input_required"),
            task_id,
        ),
    )


def question(raw: Raw, task_id: int, tenant: int, **values: Any) -> int:
    given = {
        "task_id": task_id,
        "tenant_id": tenant,
        "key": f"q{next(_number)}",
        "kind": "elicitation",
        "params": "{}",
        "audience": "operator",
    }
    return insert(raw, "question", **{**given, **values})


def event(raw: Raw, **values: Any) -> int:
    return insert(raw, "event", **{"action": "test", "actor": "somebody", "door": "sql", **values})


def seal(raw: Raw) -> int:
    blank: dict[str, Any] = {"leaves": b"", "root": bytes(32), "previous": bytes(32), "signature": bytes(64)}
    return insert(raw, "seal", from_xid=0, to_xid=1, count=0, event_ids=[], key_id="k", **blank)


@contextmanager
def refused(code: str) -> Iterator[None]:
    """The statements inside end with this SQLSTATE."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    assert caught.value.sqlstate == code, caught.value


@contextmanager
def violates(constraint: str) -> Iterator[None]:
    """The statements inside break this constraint, by name."""
    with pytest.raises(psycopg.errors.IntegrityError) as caught:
        yield
    assert caught.value.diag.constraint_name == constraint
