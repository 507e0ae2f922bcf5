"""Deferred calls: a server runs the call as a task of its own, and workers poll that task.

The id of the server's task is part of the durable state. While the server works, the call takes neither a slot nor a
lease, and any worker that reaches the server polls on: nothing is run again, and nothing is unknown because a worker
was lost. `docs/dev/state-machine.md` says which changes a poll can make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.conf import settings

from taskhub.core.policy import answerers
from taskhub.core.records import Actor, Claim, NewQuestion, Poll, UpstreamTask
from taskhub.domain.changes import change, questions, who
from taskhub.domain.hints.announce import announce
from taskhub.domain.tasks.run import outcome_seconds
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken, Vault
from taskhub.store import statements

POLL_RANGE_MS: Final = (100, 60_000)
"""The shortest and the longest time between two polls of a deferred call, whatever its server wants."""

LEASE_SECONDS: Final = 15.0
"""Seconds for which a worker has a poll that it took. If the worker dies, another one polls after that."""


class _Poll(NamedTuple):
    id: int
    public_id: str
    epoch: int
    tenant_id: int
    context_id: int
    server_id: int
    server_name: str
    tool_id: int
    upstream_tool: str
    session: bytes | None
    client_capabilities: str
    question_audience: str | None
    run_seconds: int
    upstream_id: str
    revision: str
    status: str
    turn: int
    poll_ms: int
    message: str
    cancelling: bool
    ended: bool
    overdue: bool
    ran_seconds: float
    live: str | None
    keys: list[str]


_DEFER = statements.one("defer_task", bool)
_TAKE = statements.many("take_polls", _Poll)
_PUT_BACK = statements.many("put_back_polls", int)
_END = statements.one("end_poll", bool)
_FAULT = statements.one("fault_deferred", bool)
_LOSE = statements.one("lose_deferred", bool)
_CANCEL = statements.one("cancel_deferred", bool)
_ASK = statements.one("ask_deferred", bool)


@dataclass(frozen=True, slots=True)
class PutBack:
    """A poll that its worker gives back or keeps, and that is due after `delay_ms`. `message`: the new message of the
    task; `None` if it has not changed."""

    poll: Poll
    delay_ms: int
    message: str | None = None


def within_range(poll_ms: int) -> int:
    """`poll_ms`, raised or lowered into `POLL_RANGE_MS`."""
    least, most = POLL_RANGE_MS
    return min(max(poll_ms, least), most)


def defer(
    claim: Claim,
    task: UpstreamTask,
    *,
    poll_ms: int,
    ran_seconds: float,
    home: str,
    session: str = "",
    delay_ms: int,
    actor: Actor,
) -> bool:
    """Hand the task over to its server, which runs the call as `task`: it is polled first after `delay_ms`. `home`: the
    worker that polls it as long as that worker lives; empty if any worker may. `session`: the id of the session at an
    HTTP server to which the task belongs, with which another worker can go on. Returns `False` if the lease is lost."""
    return change(
        _DEFER,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        server=claim.server_id,
        upstream=task.id,
        revision=task.revision,
        home=home,
        session=Vault(settings.SECRET_KEY.encode()).encrypt(session) if session else None,
        status="input_required" if task.status == "input_required" else "working",
        poll_ms=within_range(poll_ms),
        delay_ms=delay_ms,
        ran_seconds=ran_seconds,
        message=_shown(task.message),
        who=who(actor),
    )


def take_polls(worker: str, rooms: Mapping[int, int]) -> list[Poll]:
    """Take polls that are due: for each server at most as many as `rooms` says."""
    rows = _TAKE(
        worker=worker,
        servers=list(rooms),
        rooms=list(rooms.values()),
        lease_seconds=LEASE_SECONDS,
    )
    return [_poll(row) for row in rows]


def _poll(row: _Poll) -> Poll:
    claim = Claim(
        task_id=row.id,
        public_id=row.public_id,
        epoch=row.epoch,
        tenant_id=row.tenant_id,
        context_id=row.context_id,
        server_id=row.server_id,
        server_name=row.server_name,
        tool_id=row.tool_id,
        tool_name=row.upstream_tool,
        arguments={},
        answers=None,
        upstream_state=None,
        client_capabilities=json.loads(row.client_capabilities),
        trace={},
        question_audience=answerers(row.question_audience)[0],
        run_seconds=row.run_seconds,
        only_caller=answerers(row.question_audience)[1],
    )
    live = json.loads(row.live) if row.live else {}
    return Poll(
        claim=claim,
        upstream_id=row.upstream_id,
        revision=row.revision,
        status=row.status,
        turn=row.turn,
        poll_ms=row.poll_ms,
        message=row.message,
        cancelling=row.cancelling,
        ended=row.ended,
        overdue=row.overdue,
        ran_seconds=row.ran_seconds,
        open_keys=frozenset(key for key, (state, _, _) in live.items() if state == "open"),
        answers={key: json.loads(response) for key, (state, response, _) in live.items() if state == "answered"},
        errors={key: json.loads(error) for key, (_, _, error) in live.items() if error is not None},
        used_keys=frozenset(row.keys),
        session=_opened(row.session),
    )


def _opened(session: bytes | None) -> str:
    """The id of a session; empty if there is none, or if it was encrypted under another `SECRET_KEY`."""
    if session is None:
        return ""
    try:
        return Vault(settings.SECRET_KEY.encode()).decrypt(bytes(session))
    except InvalidToken:
        return ""


def put_back_polls(polls: Sequence[PutBack], *, actor: Actor) -> frozenset[int]:
    """Set when these polls are due next, whether their worker gives them back or keeps them. Nothing is written to a
    task whose message has not changed. Returns the ids of the tasks whose polls this worker still had."""
    rows = [
        {
            "id": each.poll.claim.task_id,
            "turn": each.poll.turn,
            "status": each.poll.status,
            "poll_ms": within_range(each.poll.poll_ms),
            "delay_ms": each.delay_ms,
            "message": None if each.message is None else _shown(each.message),
        }
        for each in polls
    ]
    kept = change(_PUT_BACK, polls=jsonx.encode(rows).decode(), who=who(actor))
    announce(*(each.poll.claim.task_id for each in polls if each.message is not None))
    return frozenset(kept)


def end_poll(poll: Poll, *, status: str) -> bool:
    """Record that the server's task is over, for a call that has ended. Workers do not poll that task any more."""
    return change(_END, task=poll.claim.task_id, turn=poll.turn, status=status)


def fault_deferred(poll: Poll, error: dict[str, Any], *, status: str, kind: str, actor: Actor) -> bool:
    """Store a JSON-RPC error: the task is faulted, or queued again, as by `run.fault`; its server's task is over, in
    `status`. Returns `False` if another worker has taken the poll, or the task has ended."""
    clean = jsonx.repaired(error)
    return change(
        _FAULT,
        poll.claim.task_id,
        task=poll.claim.task_id,
        epoch=poll.claim.epoch,
        turn=poll.turn,
        status=status,
        error=jsonx.encode(clean).decode(),
        message=str(clean["message"])[:1024],
        kind=kind,
        who=who(actor),
    )


def lose_deferred(poll: Poll, *, told: str, actor: Actor) -> bool:
    """Report that the server's task cannot be found any more; `told` says why. A tool that may run twice runs again, up
    to its attempts; for any other, people are asked whether it ran. Returns what `fault_deferred` returns."""
    return change(
        _LOSE,
        poll.claim.task_id,
        task=poll.claim.task_id,
        epoch=poll.claim.epoch,
        turn=poll.turn,
        told=told[:1024],
        outcome_seconds=outcome_seconds(),
        who=who(actor),
    )


def cancel_deferred(poll: Poll, *, status: str, message: str, actor: Actor) -> bool:
    """End the task as cancelled, and its server's task as over, in `status`. Returns what `fault_deferred` returns."""
    return change(
        _CANCEL,
        poll.claim.task_id,
        task=poll.claim.task_id,
        epoch=poll.claim.epoch,
        turn=poll.turn,
        status=status,
        message=message,
        who=who(actor),
    )


def ask_deferred(poll: Poll, asked: Sequence[NewQuestion] | None, *, message: str, delay_ms: int, actor: Actor) -> bool:
    """Open further questions of the server's task, and poll it again after `delay_ms`. If `asked` is `None`, close its
    open questions: the server does not want an answer any more. Returns what `fault_deferred` returns."""
    return change(
        _ASK,
        poll.claim.task_id,
        task=poll.claim.task_id,
        epoch=poll.claim.epoch,
        turn=poll.turn,
        asked=None if asked is None else jsonx.encode(questions(asked)).decode(),
        message=_shown(message),
        delay_ms=delay_ms,
        who=who(actor),
    )


def _shown(message: str) -> str:
    return str(jsonx.repaired(message))[:1024]
