"""Creation: from a call to a durable task."""

from __future__ import annotations

import hashlib
import time

from django.conf import settings

from taskhub.core.errors import LimitReached
from taskhub.core.records import (
    Actor,
    Audience,
    Created,
    NewQuestion,
    NewTask,
    OpenQuestion,
    QuestionKind,
    State,
    TaskRecord,
    ToolRecord,
)
from taskhub.lib import ids, jsonx
from taskhub.lifecycle._records import change, questions, who
from taskhub.lifecycle.hints import announce
from taskhub.queries.tasks import task_by_id
from taskhub.store import call

_CREATE = (
    "SELECT r_existed, r_id, r_created_at FROM create_task_v1(%s, %s, %s, %s, %s, %s,"
    " %s::jsonb, %s, %s::jsonb, %s::json, %s, %s,"
    " %s::int, %s, %s::jsonb, %s::jsonb, %s::jsonb, %s, %s::int, %s, %s::int, %s)"
)
TTL_RANGE_MS = (1_000, 2_592_000_000)


def create_task(new: NewTask, actor: Actor) -> Created:
    """Make the task durable; when this returns, any process can read it (T26-18).

    With an idempotency key that this context used before and the same tool and arguments,
    the earlier task is returned. If the tool's policy asks for approval of these arguments,
    the task is born waiting for it.

    Raises `KeyReused` (same key, other call), `LimitReached` (live tasks of the context) or
    `Unavailable`; nothing is stored then.
    """
    tool = new.tool
    try:
        _check_limit(new.context_id)
    except LimitReached:
        if new.idempotency_key is None or not _known(new.context_id, new.idempotency_key):
            raise
    approval = approval_question(tool, new.arguments)
    ttl = None if new.ttl_ms is None else min(max(new.ttl_ms, TTL_RANGE_MS[0]), TTL_RANGE_MS[1])
    public_id = ids.public_id()
    message = "" if approval is None else waiting_text(approval)
    existed, task_id, created_at = change(
        _CREATE,
        (
            public_id,
            new.tenant_id,
            new.context_id,
            tool.id,
            tool.exposed_name,
            new.revision,
            jsonx.encode(new.arguments).decode(),
            hashlib.sha256(jsonx.canonical(new.arguments)).digest(),
            None if new.answers is None else jsonx.encode(new.answers).decode(),
            None if approval is None else questions([approval]),
            message,
            ttl,
            new.poll_interval_ms,
            new.idempotency_key,
            jsonx.encode(jsonx.repaired(new.client_info)).decode(),
            jsonx.encode(jsonx.repaired(new.client_capabilities)).decode(),
            jsonx.encode(jsonx.repaired(new.trace)).decode(),
            new.rerun_of,
            tool.max_attempts,
            tool.at_least_once,
            tool.run_seconds,
            who(actor),
        ),
    )
    announce(task_id)
    if existed:
        known = task_by_id(task_id)
        assert known is not None  # found by its key in the statement before
        return Created(task=known, existed=True)
    # A new task is what was just written: no second round trip to read it back.
    asked = () if approval is None else (_opened(approval),)
    return Created(
        task=TaskRecord(
            id=task_id,
            public_id=public_id,
            revision=new.revision,
            state=State.QUEUED if approval is None else State.INPUT_REQUIRED,
            message=message,
            progress=None,
            total=None,
            created_at=created_at,
            updated_at=created_at,
            ended_at=None,
            ttl_ms=ttl,
            poll_interval_ms=new.poll_interval_ms,
            result_json=None,
            error_json=None,
            is_error=False,
            cancel_requested_at=None,
            version=1,
            tool_name=tool.exposed_name,
            questions=asked,
        ),
        existed=False,
    )


def _opened(question: NewQuestion) -> OpenQuestion:
    return OpenQuestion(
        key=question.key,
        kind=question.kind,
        params=question.params,
        audience=question.audience,
        group=question.group,
        quorum=question.quorum,
        approvals=0,
    )


_live: dict[int, tuple[float, int]] = {}


def forget_counts() -> None:
    """Count anew at the next creation."""
    _live.clear()


def _check_limit(context_id: int) -> None:
    """Live tasks are counted once a second per process and context, plus what this process made
    since: exact counting under a lock would put every creation of a busy client in one line."""
    now = time.monotonic()
    until, count = _live.get(context_id, (0.0, 0))
    if until < now:
        (count,) = call.rows("SELECT count(*) FROM task WHERE context_id = %s AND ended_at IS NULL", (context_id,))[0]
        until = now + 1.0
    if count >= settings.TASKHUB_CONTEXT_LIVE:
        raise LimitReached(f"This client already has {count} live tasks, the most allowed.", retry_after=1)
    _live[context_id] = (until, count + 1)


def _known(context_id: int, key: str) -> bool:
    """Whether the key made a task before: its replay is answered also at the limit."""
    return bool(call.rows("SELECT 1 FROM task WHERE context_id = %s AND idempotency_key = %s", (context_id, key)))


def approval_question(tool: ToolRecord, arguments: dict[str, object]) -> NewQuestion | None:
    """The approval that the tool's policy wants for these arguments, if any.

    `approval_when` maps argument names to the value that calls for approval; empty means
    always.
    """
    if not tool.approval:
        return None
    if any(arguments.get(name) != value for name, value in tool.approval_when.items()):
        return None
    return NewQuestion(
        key="approval",
        kind=QuestionKind.APPROVAL,
        params={"tool": tool.exposed_name, "server": tool.server_name, "rule": tool.approval_when},
        audience=Audience.OPERATOR,
        group=tool.approval_group,
        quorum=tool.approval_quorum,
    )


def waiting_text(question: NewQuestion) -> str:
    """What the caller is told about a question that people answer."""
    if question.kind is QuestionKind.APPROVAL:
        by = f" by {question.group}" if question.group else ""
        return f"Waiting for approval{by}, 0 of {question.quorum}"
    return "Waiting for an answer by an operator"
