"""The changes that a worker makes to a task. Every write carries the claim's epoch: the late write of a worker that
lost its lease changes nothing, and leaves an event."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg
from django.conf import settings

from taskhub.core.errors import Invalid, Refused
from taskhub.core.policy import answerers
from taskhub.core.records import Actor, Audience, Claim, LogLine, NewQuestion
from taskhub.core.words import words
from taskhub.domain.changes import change, questions, who
from taskhub.domain.hints.announce import announce
from taskhub.domain.questions.answer import checked_answer
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.tasks.recheck import has_preview, may_run
from taskhub.lib import jsonx
from taskhub.store import statements

logger = logging.getLogger(__name__)

LINES_KEPT = 2_000
"""Log lines stored per task; later ones are dropped."""

UNDECIDED_SECONDS = 10.0
"""Seconds until a task for which the rules could not be evaluated may be claimed again."""


class _Taken(NamedTuple):
    """A claimed task. `more`, `since`, `skipped` and `held_back` are about the whole claim, the same in each row. If
    nothing was claimed, there may be one row whose `id` is `None`. JSON columns are text."""

    id: int | None
    public_id: str
    epoch: int
    tenant_id: int
    context_id: int
    server_id: int
    server_name: str
    tool_id: int
    upstream_tool: str
    arguments: str
    answers: str
    upstream_state: str | None
    client_capabilities: str
    trace: str
    question_audience: str | None
    run_seconds: int
    given: str | None
    revision: str
    to_decide: bool
    more: bool
    since: datetime | None
    skipped: bool
    held_back: list[int] | None
    waited: float
    previewed: bool


_CLAIM = statements.many("claim_tasks", _Taken)
_RENEW = statements.many("renew_leases", tuple[int, bool])
_UNRULED = statements.many("unruled_tasks", int)
_NOTE = statements.one("note", bool)
_GOES_ON_BY_TOOLS = statements.one("goes_on_by_tools", bool)
_ASK = statements.one("ask", bool)
_FINISH = statements.many("finish_tasks", int)
_FAULT = statements.one("fault", bool)
_LOSE = statements.one("lose", bool)
_SETTLE = statements.one("settle_cancel", bool)
_RELEASE = statements.one("release", bool)
_HELD_BY = statements.many("held_by", tuple[int, int])


@dataclass(frozen=True, slots=True)
class Claimed:
    """The result of `claim_tasks`.

    `more`: further tasks wait for a task to end, for a slot here or for their client's limit.
    `since`: where the next claim may start.
    `skipped`: another transaction held the lock of a task that waits for nothing else.
    `held_back`: tasks that may not run any more, or not before they are approved again. They have left the queue, and
    others may be behind them.
    """

    tasks: list[Claim]
    more: bool
    since: datetime | None
    skipped: bool = False
    held_back: tuple[int, ...] = ()


def claim_tasks(
    *,
    worker: str,
    limit: int,
    lease_seconds: float,
    per_context: int,
    actor: Actor,
    share: int | None = None,
    scarce: Mapping[int, int] = MappingProxyType({}),
    since: datetime | None = None,
) -> Claimed:
    """Lease up to `limit` runnable tasks, oldest first, to `worker`. Never leases a task that another worker holds, nor
    a task whose cancellation was requested, whose tool was turned off, whose client was locked out, or whose tool has
    changed since it was approved. Sends no hint about the leased tasks: see `announce_running`.

    An auth context runs at most `per_context` tasks in all, and `share` of them on this worker (default:
    `per_context`); its further tasks do not hold up those of others.

    `scarce` maps each server that takes fewer than `limit` more calls of this worker to how many it takes, which may be
    none. Tasks for other servers do not wait behind tasks for these.

    With the `since` of the claim before, tasks that became runnable more than a second earlier are not looked at. Every
    few seconds a claim must go without it, to find tasks that were locked or committed late.
    """
    found = _CLAIM(
        worker=worker,
        free=limit,
        lease_seconds=lease_seconds,
        per_context=per_context,
        share=per_context if share is None else share,
        scarce=list(scarce),
        rooms=list(scarce.values()),
        since=since,
        who=who(actor),
    )
    if not found:
        return Claimed([], False, None)
    held_back = tuple(found[0].held_back or ())
    announce(*held_back)
    # `json.loads`, since stored values were checked when they came in: the limits of `jsonx` could refuse one of them,
    # and then the whole batch would be claimed and never run.
    claims = [
        Claim(
            task_id=row.id,
            public_id=row.public_id,
            epoch=row.epoch,
            tenant_id=row.tenant_id,
            context_id=row.context_id,
            server_id=row.server_id,
            server_name=row.server_name,
            tool_id=row.tool_id,
            tool_name=row.upstream_tool,
            arguments=json.loads(row.arguments),
            answers=json.loads(row.answers) or None,
            upstream_state=row.upstream_state,
            client_capabilities=json.loads(row.client_capabilities),
            trace=json.loads(row.trace),
            question_audience=answerers(row.question_audience)[0],
            run_seconds=row.run_seconds,
            given=json.loads(row.given) if row.given else None,
            revision=row.revision,
            waited=row.waited,
            only_caller=answerers(row.question_audience)[1],
            previewed=row.previewed,
        )
        for row in found
        if row.id is not None
    ]
    since = found[0].since if claims else None
    outdated = [row.id for row in found if row.to_decide]
    if outdated:
        claims = _decided(claims, frozenset(outdated), actor)
    return Claimed(claims, found[0].more, since, found[0].skipped, held_back)


def _decided(claims: list[Claim], outdated: Collection[int | None], actor: Actor) -> list[Claim]:
    """The claimed tasks that may run, after the rules have decided those in `outdated` again. A task for which that
    fails returns to the queue."""
    rules: dict[int, Rules] = {}
    left = []
    for claim in claims:
        if claim.task_id in outdated:
            try:
                if not may_run(claim, rules, actor=actor):
                    continue
            except Exception:
                logger.exception("task %s: the rules could not decide it again", claim.public_id)
                release(claim, started=False, delay_seconds=UNDECIDED_SECONDS, reason=words("undecided"), actor=actor)
                continue
            # The rule that decides now may have no preview, even if the one that decided before had one.
            left.append(replace(claim, previewed=claim.previewed and has_preview(claim.task_id)))
        else:
            left.append(claim)
    return left


def announce_running(*task_ids: int) -> None:
    """Send hints that these tasks are running. Only for tasks that take a moment: most tools are done before anybody
    could look, and the hint of their end is enough."""
    announce(*task_ids)


def renew_leases(*, worker: str, held: Sequence[tuple[int, int]], lease_seconds: float) -> dict[int, bool]:
    """Renew the leases of `held` (task id, epoch). Returns for each task that is still held whether its cancellation
    was requested. The lease of a missing task is lost."""
    tasks, epochs = [task for task, _ in held], [epoch for _, epoch in held]
    return dict(_RENEW(worker=worker, tasks=tasks, epochs=epochs, lease_seconds=lease_seconds))


def unruled(lost: Sequence[tuple[int, int]]) -> set[int]:
    """Which of the tasks `lost` (task id, epoch) still wait for a ruling on the run of that epoch: no other run has
    begun, and none may begin before the ruling."""
    return set(_UNRULED(tasks=[task for task, _ in lost], epochs=[epoch for _, epoch in lost]))


def note(claim: Claim, lines: Sequence[LogLine]) -> bool:
    """Store log lines and progress that the tool has sent. Returns `False` if the lease is lost."""
    body = [
        {"level": line.level, "text": jsonx.repaired(line.text), "progress": line.progress, "total": line.total}
        for line in lines
    ]
    return change(
        _NOTE,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        lines=jsonx.encode(body).decode(),
        most=LINES_KEPT,
    )


def goes_on_by_tools(task_id: int) -> bool:
    """Whether the task is of a plain call whose client sees the hub's own tools."""
    return _GOES_ON_BY_TOOLS(task=task_id, listed=settings.TASKHUB_HUB_TOOLS)


def ask(
    claim: Claim, asked: Sequence[NewQuestion], *, upstream_state: str | None, message: str, live: bool, actor: Actor
) -> bool:
    """Open questions of the tool. With `live` the tool goes on and waits; otherwise the lease ends, and the tool is
    called again with the answers.

    An answer that came with the call is stored as its client's decision. If no question is left open, the task is
    runnable at once. Returns `False` if the lease is lost.
    """
    given = [] if live else _given(claim, asked)
    return change(
        _ASK,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        asked=jsonx.encode(questions(asked)).decode(),
        upstream_state=upstream_state,
        message=message,
        live=live,
        given=jsonx.encode(given).decode() if given else None,
        who=who(actor),
    )


def _given(claim: Claim, asked: Sequence[NewQuestion]) -> list[dict[str, str]]:
    """The answers that came with the call and are valid, each for a question that the client may answer and that is
    asked for the first time. All other questions are asked (B26-65)."""
    given, found = claim.given or {}, []
    for question in asked:
        response = given.get(question.key, given.get(question.upstream_key))
        if response is None or question.audience is Audience.OPERATOR or question.upstream_key in (claim.answers or {}):
            continue
        with contextlib.suppress(Invalid):
            clean, verdict = checked_answer(question.kind, question.params, response)
            found.append({"key": question.key, "response": jsonx.encode(clean).decode(), "verdict": verdict})
    return found


def finish(claim: Claim, result: dict[str, Any], *, actor: Actor) -> bool:
    """Store the tool's result: the task is finished. Returns `False` if the lease is lost; nothing has changed then.
    One exception: while people are asked whether the tool ran, its late result is stored, and ends the question.

    Text that Postgres or JSON cannot hold is repaired (U+FFFD), never refused, so that a result can always be stored.
    """
    (done,) = finish_tasks([Result(claim, result)], actor=actor)
    if isinstance(done, Exception):
        raise done
    return done


@dataclass(frozen=True, slots=True)
class Result:
    """A run that ended with a result."""

    claim: Claim
    result: dict[str, Any]
    too_large: bool = False
    """Whether the result says only that what the server sent was too large."""
    _text: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The result as it is stored: JSON, with U+FFFD for what Postgres or JSON cannot hold. Encoded once."""
        if not self._text:
            self._text.append(jsonx.encode(jsonx.repaired(self.result)).decode())
        return self._text[0]


def finish_tasks(
    ended: Sequence[Result], *, actor: Actor, tell: Callable[..., None] = announce
) -> list[bool | Exception]:
    """`finish` for each, in one transaction. Returns for each, in order, what `finish` returns, or the exception.
    `tell` announces the tasks that are finished now. Raises `Unavailable` for all of them."""
    try:
        return _finish(ended, actor, tell)
    except (Refused, psycopg.Error) as error:
        if len(ended) == 1:
            return [error]
    # One result made the statement fail for all: store each by itself.
    return [outcome for one in ended for outcome in finish_tasks([one], actor=actor, tell=tell)]


def _finish(ended: Sequence[Result], actor: Actor, tell: Callable[..., None]) -> list[bool | Exception]:
    rows = [
        {
            "id": one.claim.task_id,
            "epoch": one.claim.epoch,
            "result": one.text,
            "is_error": one.result.get("isError") is True,
            "message": _first_text(one.result)[:200] if one.result.get("isError") is True else "",
        }
        for one in ended
    ]
    finished = change(_FINISH, ended=jsonx.encode(rows).decode(), who=who(actor))
    done = set(finished)
    tell(*done)
    return [one.claim.task_id in done for one in ended]


def fault(claim: Claim, error: dict[str, Any], *, kind: str = "", actor: Actor) -> bool:
    """Store a JSON-RPC error: the task is faulted; or it is queued again, if its tool's present policy names the error
    `kind` (`core.policy.Policy.retry_on`) and it has attempts left. Returns `False` if the lease is lost; nothing has
    changed then."""
    clean = jsonx.repaired(error)
    return change(
        _FAULT,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        error=jsonx.encode(clean).decode(),
        message=str(clean["message"])[:1024],
        kind=kind,
        who=who(actor),
    )


def settle_cancel(claim: Claim, *, message: str, actor: Actor) -> bool:
    """End the task as cancelled, after the tool has stopped as requested. Returns `False` if no cancellation was
    requested, or the lease is lost."""
    return change(_SETTLE, claim.task_id, task=claim.task_id, epoch=claim.epoch, message=message, who=who(actor))


def release(claim: Claim, *, started: bool, delay_seconds: float, reason: str, actor: Actor) -> bool:
    """Return the task to the queue, to be claimed again after `delay_seconds`. If the tool had `started` and may not
    run twice, its outcome is unknown, and people are asked. Returns `False` if the lease is lost."""
    return change(
        _RELEASE,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        started=started,
        delay_seconds=delay_seconds,
        reason=reason,
        outcome_seconds=outcome_seconds(),
        who=who(actor),
    )


def held_by(worker: str) -> list[tuple[int, int]]:
    """The tasks of which this worker has the lease, each with its epoch."""
    return _HELD_BY(worker=worker)


def give_back(task_id: int, epoch: int, *, actor: Actor) -> bool:
    """Return a task whose tool was not called to the queue at once, as `release` does."""
    return change(
        _RELEASE,
        task_id,
        task=task_id,
        epoch=epoch,
        started=False,
        delay_seconds=0.0,
        reason="",
        outcome_seconds=outcome_seconds(),
        who=who(actor),
    )


def lose(claim: Claim, *, told: str, actor: Actor) -> bool:
    """Report that the connection to the server was lost while the tool ran; `told` says so. A tool that may run twice
    runs again, up to its attempts; for any other, people are asked whether it ran. Returns `False` if the lease is
    lost."""
    return change(
        _LOSE,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        told=told,
        outcome_seconds=outcome_seconds(),
        who=who(actor),
    )


def outcome_seconds() -> float:
    """Seconds for which people are asked whether a tool ran, before its task fails; 0 if they are not asked."""
    return settings.TASKHUB_OUTCOME_HOURS * 3_600.0


def _first_text(result: dict[str, Any]) -> str:
    for block in result.get("content", []):
        if isinstance(block, dict) and block.get("type") == "text":
            return str(jsonx.repaired(block.get("text", "")))
    return "The tool reported an error"
