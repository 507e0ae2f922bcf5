"""Creates durable tasks from calls."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg
from django.conf import settings
from django.db import transaction

from taskhub.core import calls
from taskhub.core.errors import KeyReused, LimitReached, TaskHubError, Unavailable
from taskhub.core.hints import TaskChanged, TaskHint, TaskQueued
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
from taskhub.core.rules import Risk, Rule, Then, Verdict
from taskhub.core.words import waiting_for_approval, words
from taskhub.domain.changes import change, questions, who
from taskhub.domain.hints.announce import announce, announce_created
from taskhub.domain.rules.conditions import schema_of
from taskhub.domain.rules.expressions import compiled
from taskhub.domain.rules.sentences import filled_in
from taskhub.domain.tasks.reads import task_by_id
from taskhub.lib import ids, jsonx
from taskhub.store import statements


class _Made(NamedTuple):
    """The outcome for the task numbered `n`. `existed`: an earlier task is returned, which has the same key or was
    joined. `reused`: the key was used for another call. `in_place`: the worker of `NewTask.place` has the task's first
    lease."""

    n: int
    existed: bool
    reused: bool
    id: int
    created_at: datetime
    in_place: bool


_CREATE = statements.many("create_tasks", _Made)
_JOIN_OR_CREATE = statements.many("join_or_create_tasks", _Made)
_LIVE = statements.one("count_live_tasks", int)
_APPROVALS = statements.one("count_open_approvals", tuple[int, int])
_TURN = statements.none("take_turn_to_ask")
_KNOWN = statements.one("known_key", bool)
_AFTER_TIME: Final = frozenset({"expires_minutes", "otherwise", "escalate_to"})
"""The members of a question's `decided` that say what the rule wants if nobody decides in time."""
_TRACE_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
TTL_RANGE_MS = (1_000, 2_592_000_000)


def create_task(new: NewTask, actor: Actor) -> Created:
    """Create a durable task; when this returns, any process can read it (T26-18).

    The earlier task is returned, even at the limit of live tasks, if the context has used the idempotency key before
    with the same tool and arguments, or if the plain call joins an earlier one (`NewTask.join_seconds`). If the tool's
    rule asks about the call, the task is created in `input_required`. If the call has a `place` and a worker could
    claim it at once, the task is created in `working`, with a lease for the worker of that place (`Created.in_place`).

    Raises `KeyReused` (same key, other call), `LimitReached` (live tasks of the context, or its calls that wait for
    approval) or `Unavailable`; nothing is stored then.
    """
    (made,) = create_tasks([(new, actor)])
    if isinstance(made, Exception):
        raise made
    return made


def create_tasks(wanted: Sequence[tuple[NewTask, Actor]]) -> list[Created | Exception]:
    """`create_task` for each of `wanted`: in one transaction, but each task that needs an approval in its own. Returns
    for each, in order, the task or the exception: a refused task does not affect the others. If `Unavailable` ends the
    common transaction, it is raised, and nothing is created."""
    outcomes: dict[int, Created | Exception] = {}
    drafts: list[_Draft] = []
    asking: list[_Draft] = []
    for n, (new, actor) in enumerate(wanted):
        try:
            draft = _draft(n, new, actor)
        except LimitReached as error:
            outcomes[n] = error
        else:
            (drafts if draft.approval is None else asking).append(draft)
    try:
        outcomes.update(_store(drafts))
    except (TaskHubError, psycopg.Error) as error:
        if isinstance(error, Unavailable):
            raise
        if len(drafts) == 1:
            outcomes[drafts[0].n] = error
            drafts = []
        # One task made the statement fail for all: store each by itself.
        for draft in drafts:
            try:
                outcomes.update(_store([draft]))
            except (TaskHubError, psycopg.Error) as its_own:
                outcomes[draft.n] = its_own
    for draft in asking:
        try:
            outcomes.update(_store_asking(draft))
        except (TaskHubError, psycopg.Error) as error:
            outcomes[draft.n] = error
    return [outcomes[n] for n in range(len(wanted))]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A task that is not stored yet."""

    n: int
    new: NewTask
    actor: Actor
    public_id: str
    ttl_ms: int | None
    message: str
    approval: NewQuestion | None
    row: dict[str, Any]
    limit: LimitReached | None
    """Set if the context is at its limit, so that the call can only join an existing task."""
    counted: bool
    """Whether `_check_limit` counted the call as a task to be made."""


def _draft(n: int, new: NewTask, actor: Actor) -> _Draft:
    tool = new.tool
    approval = _wanted(new, approval_question(tool, new.arguments, new.verdict))
    limit, counted = None, True
    try:
        if approval is not None:
            _check_approvals(new)
        _check_limit(new.context_id)
    except LimitReached as error:
        counted = False
        limit = _or_earlier(new, error)
    ttl = None if new.ttl_ms is None else min(max(new.ttl_ms, TTL_RANGE_MS[0]), TTL_RANGE_MS[1])
    public_id = ids.public_id()
    message = words("waiting_server") if tool.server_away else ""
    if approval is not None:
        message = waiting_for_approval(approval.group, 0, approval.quorum)
    row = {
        "n": n,
        "public_id": public_id,
        "tenant": new.tenant_id,
        "context": new.context_id,
        "tool": tool.id,
        "tool_name": tool.exposed_name,
        "revision": new.revision,
        "arguments": jsonx.encode(new.arguments).decode(),  # as text: JSON may hold what SQL values cannot
        "digest": hashlib.sha256(jsonx.canonical(new.arguments)).hexdigest(),
        "tool_digest": tool.digest,
        "answers": new.answers,
        "decided": new.verdict.stored(),
        "questions": None if approval is None else questions([approval]),
        "message": message,
        "ttl_ms": ttl,
        "poll_ms": new.poll_interval_ms,
        "key": new.idempotency_key,
        "client_info": jsonx.repaired(new.client_info),
        "client_capabilities": jsonx.repaired(new.client_capabilities),
        "trace": jsonx.repaired(new.trace),
        "rerun_of": new.rerun_of,
        "max_attempts": tool.max_attempts,
        "at_least_once": tool.at_least_once,
        "run_seconds": tool.run_seconds,
        "session": new.session_id,
        "request_id": new.request_id,
        "progress_token": new.progress_token,
        "handle": new.handle,
        "client_task_id": new.client_task_id,
        "keep_ms": new.keep_ms,
        "join_seconds": new.join_seconds,
        "waiter": new.waiter,
        "join_session": new.join_session,
        "joins_only": limit is not None,
    }
    if new.place is not None:
        row |= {
            "worker": new.place.worker,
            "lease_seconds": settings.TASKHUB_LEASE_SECONDS,
            "per_context": settings.TASKHUB_CONTEXT_RUNNING,
            "share": new.place.share,
        }
    return _Draft(n, new, actor, public_id, ttl, message, approval, row, limit, counted)


def _or_earlier(new: NewTask, limit: LimitReached) -> LimitReached | None:
    """What becomes of the error if a call at a limit may get an earlier task. For a call that may join a task, returns
    the error, which counts if there is no such task. For a call whose key was used, returns `None`. For any other call,
    raises the error."""
    if new.join_seconds is not None:
        return limit
    if new.idempotency_key is None or not _known(new.context_id, new.idempotency_key):
        raise limit
    return None


def _store_asking(draft: _Draft) -> dict[int, Created | Exception]:
    """Store a task that needs an approval. A client's tasks of this sort are stored one after the other, and the limit
    is checked here once more: otherwise calls of the same moment could exceed it."""
    with transaction.atomic():
        _TURN(context=draft.new.context_id)
        try:
            _check_approvals(draft.new)
        except LimitReached as error:
            if draft.counted:
                _uncount(draft.new.context_id)
            limit = _or_earlier(draft.new, error)
            row = {**draft.row, "joins_only": limit is not None}
            draft = replace(draft, limit=limit, counted=False, row=row)
        return _store([draft])


def _store(drafts: Sequence[_Draft]) -> dict[int, Created | Exception]:
    if not drafts:
        return {}
    if repeated := _repeated(drafts):
        return _store([draft for draft in drafts if draft not in repeated]) | _store(repeated)
    by_number = {draft.n: draft for draft in drafts}
    create = _CREATE if all(draft.new.join_seconds is None for draft in drafts) else _JOIN_OR_CREATE
    found = change(create, wanted=jsonx.encode([draft.row for draft in drafts]).decode(), who=_who(drafts))
    announce_created([_hint(by_number[made.n], made.id) for made in found if not made.existed and not made.in_place])
    announce(*(made.id for made in found if made.existed and by_number[made.n].new.join_seconds is not None))
    outcomes: dict[int, Created | Exception] = {}
    for made in found:
        if made.reused:
            outcomes[made.n] = KeyReused("This idempotency key was used with another tool or other arguments.")
        else:
            outcomes[made.n] = _created(by_number[made.n], made)
        if by_number[made.n].counted and (made.existed or made.reused):
            _uncount(by_number[made.n].new.context_id)
    for n in by_number.keys() - outcomes.keys():
        # The statement returned no row: at the limit there was no task to join, or the earlier task of the key was
        # purged meanwhile.
        gone = Unavailable("The task of this key is just being removed; try again.")
        outcomes[n] = by_number[n].limit or gone
    return outcomes


def _repeated(drafts: Sequence[_Draft]) -> list[_Draft]:
    """The drafts that may join the task of an earlier draft in `drafts`, because both have the same call."""
    first: set[tuple[Any, ...]] = set()
    again = []
    for draft in drafts:
        if draft.new.join_seconds is not None:
            program = jsonx.canonical([draft.row["client_info"], draft.row["client_capabilities"]])
            call = (draft.new.context_id, draft.new.tool.id, draft.row["digest"], draft.new.revision, program)
            if call in first:
                again.append(draft)
            first.add(call)
    return again


def _who(drafts: Sequence[_Draft]) -> str:
    """The actor of the tasks, as JSON: usually one actor for all tasks, otherwise one for each (see `task_record`)."""
    actors = {draft.actor for draft in drafts}
    if len(actors) == 1:
        return who(drafts[0].actor)
    each = ",".join(f'"{draft.public_id}":{who(draft.actor)}' for draft in drafts)
    return f'{{"tasks":{{{each}}}}}'


def _hint(draft: _Draft, task_id: int) -> TaskHint:
    news = TaskQueued if draft.approval is None else TaskChanged
    return news(draft.new.tenant_id, draft.new.context_id, task_id, draft.public_id)


def _created(draft: _Draft, made: _Made) -> Created:
    if made.existed:
        known = task_by_id(made.id)
        assert known is not None  # found by its key in the statement before
        return Created(task=known, existed=True)
    # A new task has the values that were just written: no second round trip to read it back.
    new = draft.new
    return Created(
        task=TaskRecord(
            id=made.id,
            public_id=draft.public_id,
            revision=new.revision,
            state=_state(draft, made),
            message=draft.message,
            progress=None,
            total=None,
            created_at=made.created_at,
            updated_at=made.created_at,
            ended_at=None,
            ttl_ms=draft.ttl_ms,
            poll_interval_ms=new.poll_interval_ms,
            result_json=None,
            error_json=None,
            is_error=False,
            cancel_requested_at=None,
            version=1,
            tool_name=new.tool.exposed_name,
            questions=() if draft.approval is None else (_opened(draft.approval),),
            session_id=new.session_id,
            progress_token=new.progress_token,
            handle=new.handle,
            client_task_id=new.client_task_id,
            keep_ms=new.keep_ms,
            join_seconds=new.join_seconds,
        ),
        existed=False,
        in_place=made.in_place,
    )


def _state(draft: _Draft, made: _Made) -> State:
    if made.in_place:
        return State.WORKING
    return State.QUEUED if draft.approval is None else State.INPUT_REQUIRED


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
    """Drop the counts of live tasks, so that the next creation counts again."""
    _live.clear()


def _check_limit(context_id: int) -> None:
    """Raises `LimitReached` at the limit. Live tasks are counted once a second for each process and context, plus those
    that this process has made since: exact counting under a lock would serialize the creations of a busy client."""
    now = time.monotonic()
    until, count = _live.get(context_id, (0.0, 0))
    if until < now:
        count = _LIVE(context=context_id)
        until = now + 1.0
    if count >= settings.TASKHUB_CONTEXT_LIVE:
        raise LimitReached(f"This client already has {count} live tasks, the most allowed.", retry_after=1)
    _live[context_id] = (until, count + 1)


def _check_approvals(new: NewTask) -> None:
    """Raises `LimitReached` if as many calls of the context, or of its conversation, wait for approval as may. People
    who are asked too often approve without looking."""
    of_context, of_conversation = _APPROVALS(context=new.context_id, session=new.session_id, trace=_trace_id(new))
    for waiting, most, of in (
        (of_context, settings.TASKHUB_CONTEXT_APPROVALS, "this client"),
        (of_conversation, settings.TASKHUB_CONVERSATION_APPROVALS, _conversation(new)),
    ):
        if waiting >= most:
            # There are more than may wait if a decision was undone, or people are asked about a call later or again.
            allowed = "the most allowed" if waiting == most else f"more than the {most} that may"
            raise LimitReached(
                f"{waiting} calls of {of} wait for approval already, {allowed}. "
                "Wait until people have decided them, or cancel some.",
                retry_after=60,
            )


def _conversation(new: NewTask) -> str:
    return "this session" if new.session_id is not None else "this trace (traceparent)"


def _trace_id(new: NewTask) -> str:
    """The id of the caller's trace (W3C Trace Context), by which a conversation is known where there are no sessions;
    empty if the call has none."""
    parent = new.trace.get("traceparent")
    found = _TRACE_PARENT.fullmatch(parent) if isinstance(parent, str) else None
    return found[1] if found else ""


def _uncount(context_id: int) -> None:
    """Undo the counting of a call by `_check_limit`: it made no task."""
    if context_id in _live:
        until, count = _live[context_id]
        _live[context_id] = (until, max(0, count - 1))


def _known(context_id: int, key: str) -> bool:
    """Whether the context has used the key before: a repeated call is answered even at the limit."""
    return _KNOWN(context=context_id, key=key)


def approval_question(tool: ToolRecord, arguments: dict[str, object], verdict: Verdict) -> NewQuestion | None:
    """The approval that the deciding rule requires; `None` if it requires none, or no rule matched."""
    rule = verdict.rule
    if rule is None or verdict.then is not Then.ASK:
        return None
    decided: dict[str, Any] = {"rule": rule.name, "version": verdict.version, "doubt": verdict.doubt}
    if rule.not_requester:
        decided["not_requester"] = True
    if rule.risk is not Risk.LOW:
        decided["risk"] = str(rule.risk)
    if rule.second_factor:
        decided["second_factor"] = True
    if rule.sentence:
        decided["sentence"] = filled_in(rule.sentence, arguments, tool.definition.get("inputSchema"))
    if named := named_values(rule, arguments, tool.definition.get("inputSchema")):
        decided["named"] = named
    decided |= {"expires_minutes": rule.expires_minutes, "otherwise": str(rule.otherwise)}
    if rule.remind_minutes:
        decided["remind_minutes"] = rule.remind_minutes
    if rule.escalate_to:
        decided["escalate_to"] = rule.escalate_to
    if rule.preview is not None:
        decided["preview"] = rule.preview.to_json()
    if rule.editable:
        decided["editable"] = list(rule.editable)
    return NewQuestion(
        key="approval",
        kind=QuestionKind.APPROVAL,
        params={"tool": tool.exposed_name, "server": tool.server_name, "decided": decided},
        audience=Audience.OPERATOR,
        group=rule.group,
        quorum=rule.quorum,
        due_seconds=rule.expires_minutes * 60,
    )


def named_values(rule: Rule, arguments: dict[str, object], schema: object) -> dict[str, object]:
    """The short values of the arguments that the rule's expression names. Lists show them, to tell calls of one tool
    apart."""
    found: dict[str, object] = {}
    for name in sorted(compiled(rule.when).arguments or ()):
        of_schema = schema_of(schema, name)
        default = of_schema.get("default") if isinstance(of_schema, dict) else None
        value = arguments.get(name, default)
        if isinstance(value, (str, int, float)) and len(str(value)) <= calls.LONGEST_VALUE:
            found[name] = value
    return found


def _wanted(new: NewTask, approval: NewQuestion | None) -> NewQuestion | None:
    """The approval as the caller wants it: due within `wanted_seconds`, and with the terms of the permit."""
    if approval is None:
        return None
    if new.wanted_seconds is not None and new.wanted_seconds < approval.due_seconds:
        approval = replace(approval, due_seconds=new.wanted_seconds)
        if decided := approval.params.get("decided"):
            # What the rule says for the end of its own time must not happen sooner because the caller wants a decision
            # sooner.
            left = {name: value for name, value in decided.items() if name not in _AFTER_TIME}
            approval = replace(approval, params={**approval.params, "decided": left})
    if new.permit_seconds is not None:
        permit = {"seconds": new.permit_seconds, "version": new.verdict.version}
        params = {**approval.params, "permit": permit}
        if decided := params.get("decided"):
            # Whoever asked makes the call with its own arguments: edited ones would never run.
            params["decided"] = {name: value for name, value in decided.items() if name != "editable"}
        approval = replace(approval, params=params)
    return approval
