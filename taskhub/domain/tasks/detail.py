"""One task with everything that happened to it, read in a fixed number of queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from taskhub.core import calls
from taskhub.core.asking import Asking, asking
from taskhub.core.bypass import Passed, passed
from taskhub.core.names import TOOL_USE
from taskhub.core.records import StoredLine, TaskRecord
from taskhub.core.states import Audience, QuestionKind, QuestionState, State
from taskhub.domain.foreign import Foreign, foreign
from taskhub.domain.questions.inbox import Vote
from taskhub.store import statements

EVENTS: Final = 300
LINES: Final = 300
QUEUE: Final = 1_000
READERS: Final = 20


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One run of the task by one worker. `server_task`: the server's task that has run the call since `deferred_at`, if
    there is one. `home`: the worker in whose session it runs; `home_lives`: whether that worker is alive. `poll_at` is
    null once the server's task is over."""

    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    error: str
    server_task: str | None = None
    home: str | None = None
    server_status: str | None = None
    deferred_at: datetime | None = None
    poll_at: datetime | None = None
    poll_ms: int | None = None
    home_lives: bool | None = None

    @property
    def took(self) -> timedelta | None:
        """How long the run took; `None` while it runs."""
        return None if self.ended_at is None else self.ended_at - self.started_at

    @property
    def home_lost(self) -> bool:
        """Whether the worker in whose session the server's task runs is gone."""
        return bool(self.home) and not self.home_lives

    @property
    def poll_every(self) -> timedelta:
        """The time between two polls of the server's task."""
        return timedelta(milliseconds=self.poll_ms or 0)


@dataclass(frozen=True, slots=True)
class ReadRow:
    """How often a client was given the result of the task."""

    client: str
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One event of the task's history."""

    id: int
    at: datetime
    action: str
    actor: str
    door: str
    address: str
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """A question of the task with its decisions; `response` is JSON text. `outdated`: whether it is an approval, and
    the tool's definition has changed since it was asked."""

    id: int
    key: str
    kind: QuestionKind
    state: QuestionState
    asked: Foreign
    audience: Audience
    group: str
    quorum: int
    live: bool
    response: str | None
    about: int | None
    """The id of the approval about which an approver asks the requester here; `None` for any other question."""
    opened_at: datetime
    closed_at: datetime | None
    due_at: datetime | None
    reminded_at: datetime | None
    outdated: bool
    votes: tuple[Vote, ...] = ()

    @property
    def params(self) -> dict[str, Any]:
        """The params of the question."""
        return self.asked.found

    @property
    def asking(self) -> Asking:
        """What the rule said that asked for an approval."""
        return asking(self.params) if self.kind is QuestionKind.APPROVAL else Asking()

    @property
    def unreadable(self) -> str:
        """Why `params` are empty although the question has some; empty if they can be read."""
        return self.asked.unreadable

    @property
    def approvals(self) -> int:
        """How many people have approved so far."""
        return sum(1 for vote in self.votes if vote.verdict == "approve")

    @property
    def is_over(self) -> bool:
        """Whether its time is over, and the next sweep of a worker does what follows."""
        return self.state is QuestionState.OPEN and self.due_at is not None and self.due_at < datetime.now(UTC)

    @property
    def by_rule(self) -> bool:
        """Whether the rule that asked decided, because nobody did in time."""
        return any(vote.verdict in ("allow", "deny") for vote in self.votes)


@dataclass(frozen=True, slots=True)
class Relative:
    """A task of which the shown task is a rerun, or a rerun of the shown task."""

    public_id: str
    state: State
    is_error: bool
    ended_as: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task for its page. Fields whose names do not say what they are:

    `live_workers`: how many workers are alive.
    `unfit`, `unfit_why`: why a worker that takes it now must not run it (`th_unfit`), as a code and in words, or empty.
    `tool_gone`: the server does not list the tool any more.
    `to_decide`: the rules decide the call again when a worker takes it (`domain.tasks.recheck`).
    `running_there`: how many tasks run at the same server; only counted while this task is queued.
    `ahead`: how many tasks of the server come before this one in the queue, among the first `QUEUE` of the queue.
    `away_since`, `retry_at`: since when the server cannot be reached, and when it is tried again.
    `retry_on`: the errors after which the present policy of the tool has a call tried again.
    `decided`: what the rules say of the call (`core.rules.Verdict.stored`); `None` if the tenant had no rules.
    `edited`: the arguments that people approved in place of the client's (`domain.tasks.edits`); `None` if nobody
    changed any.
    """

    task: TaskRecord
    tool_id: int
    tool_name: str
    upstream_name: str
    server_id: int
    server: str
    context_id: int
    client: str
    arguments: Any
    decided: dict[str, Any] | None
    edited: Any
    worker: str
    lease_until: datetime | None
    crashes: int
    max_attempts: int
    at_least_once: bool
    retry_on: list[str]
    run_seconds: int
    runnable_at: datetime
    expires_at: datetime | None
    last_polled_at: datetime | None
    idempotency_key: str | None
    client_info: dict[str, Any]
    trace: dict[str, Any]
    live_workers: int
    server_enabled: bool
    server_removed: bool
    transport: str
    calls_at_once: int | None
    unfit: str
    unfit_why: str
    tool_gone: bool
    to_decide: bool
    away_since: datetime | None
    retry_at: datetime | None
    running_there: int
    ahead: int
    rerun_of_id: int | None
    log_lines: int
    rerun_of: Relative | None = None
    reruns: tuple[Relative, ...] = ()
    questions: tuple[TaskQuestion, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    reads: tuple[ReadRow, ...] = ()
    events: tuple[TaskEvent, ...] = ()
    lines: tuple[StoredLine, ...] = ()

    @property
    def passed(self) -> Passed | None:
        """The bypass that let the call pass."""
        return passed(self.decided)

    @property
    def tool_use(self) -> str:
        """The id that the calling program sent for this use of the tool (`core.names.TOOL_USE`), by which the program's
        own transcript names the call; empty if it sent no id."""
        return str(self.trace.get(TOOL_USE, ""))

    @property
    def called(self) -> str:
        """The call's arguments in a few words, as in `InboxItem` for an approval of this call."""
        given = self.arguments if isinstance(self.arguments, dict) else {}
        asked = next((each.params for each in self.questions if each.kind is QuestionKind.APPROVAL), None)
        named = calls.named(asked or {})
        return calls.short({**named, **given}, named)


_DETAIL = statements.maybe(
    "task_detail",
    TaskDetail,
    without=("rerun_of", "reruns", "questions", "attempts", "reads", "events", "lines"),
    convert={"arguments": statements.from_json, "edited": statements.from_json},
)
_RELATIVES = statements.many("task_relatives", tuple[int, Relative])
_ATTEMPTS = statements.many("task_attempts", AttemptRow)
_READS = statements.many("task_reads", ReadRow)
_EVENTS = statements.many("task_events", TaskEvent)
_LINES = statements.many("newest_lines", StoredLine)
_ASKED = statements.many("task_questions", TaskQuestion, without=("votes",), convert={"asked": foreign})
_VOTES = statements.many("task_votes", tuple[int, Vote])


def task_detail(tenant_id: int, public_id: str, *, skip: int = 0) -> TaskDetail | None:
    """The task; `None` if the tenant has none of this id. Long histories are cut to the newest events and log lines;
    `skip` leaves out that many of the newest log lines."""
    found = _DETAIL(tenant=tenant_id, public_id=public_id, most=QUEUE)
    if found is None:
        return None
    task_id = found.task.id
    origin, copies = _relatives(task_id, found.rerun_of_id)
    return replace(
        found,
        rerun_of=origin,
        reruns=copies,
        questions=_asked(task_id),
        attempts=tuple(reversed(_ATTEMPTS(task=task_id, most=EVENTS))),
        reads=tuple(_READS(task=task_id, most=READERS)) if found.task.ended_at is not None else (),
        events=tuple(reversed(_EVENTS(task=task_id, most=EVENTS))),
        lines=tuple(reversed(_LINES(task=task_id, skip=skip, most=LINES))),
    )


def waiting_task(tenant_id: int, public_id: str) -> TaskDetail | None:
    """The task with its questions, but without the rest of its history: enough to say what it waits for. `None` if the
    tenant has none of this id."""
    found = _DETAIL(tenant=tenant_id, public_id=public_id, most=QUEUE)
    return None if found is None else replace(found, questions=_asked(found.task.id))


def _relatives(task_id: int, origin_id: int | None) -> tuple[Relative | None, tuple[Relative, ...]]:
    found = _RELATIVES(task=task_id, origin=origin_id)
    origin = next((relative for key, relative in found if key == origin_id), None)
    return origin, tuple(relative for key, relative in found if key != origin_id)


def _asked(task_id: int) -> tuple[TaskQuestion, ...]:
    votes: dict[int, list[Vote]] = {}
    for question_id, vote in _VOTES(task=task_id):
        votes.setdefault(question_id, []).append(vote)
    return tuple(
        replace(asked, votes=tuple(votes.get(asked.id, ()))) for asked in reversed(_ASKED(task=task_id, most=EVENTS))
    )
