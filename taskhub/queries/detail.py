"""One task with everything that happened to it, in a fixed number of queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.records import StoredLine, TaskRecord
from taskhub.core.states import Audience, QuestionKind, QuestionState, State
from taskhub.queries._read import foreign, loaded, read
from taskhub.queries.inbox import Vote
from taskhub.queries.tasks import tenant_task

EVENTS: Final = 300
LINES: Final = 300


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One run by one worker."""

    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    error: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of the task's history."""

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
class Asked:
    """A question of the task with its decisions; `response` is JSON text."""

    id: int
    key: str
    kind: QuestionKind
    state: QuestionState
    params: dict[str, Any]
    audience: Audience
    group: str
    quorum: int
    live: bool
    response: str | None
    opened_at: datetime
    closed_at: datetime | None
    due_at: datetime | None
    unreadable: str
    """Why `params` are empty although something was asked."""
    votes: tuple[Vote, ...]

    @property
    def approvals(self) -> int:
        """How many approved so far."""
        return sum(1 for vote in self.votes if vote.verdict == "approve")


@dataclass(frozen=True, slots=True)
class Relative:
    """A task this one was run again from, or as."""

    public_id: str
    state: State
    is_error: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task as its page shows it. `ahead` counts the queue in front of a queued task, and
    `live_workers` the workers that could take it.
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
    worker: str
    lease_until: datetime | None
    crashes: int
    max_attempts: int
    at_least_once: bool
    run_seconds: int
    runnable_at: datetime
    expires_at: datetime | None
    last_polled_at: datetime | None
    idempotency_key: str | None
    client_info: dict[str, Any]
    trace: dict[str, Any]
    live_workers: int
    rerun_of: Relative | None
    reruns: tuple[Relative, ...]
    questions: tuple[Asked, ...]
    attempts: tuple[AttemptRow, ...]
    events: tuple[EventRow, ...]
    lines: tuple[StoredLine, ...]


def task_detail(tenant_id: int, public_id: str) -> TaskDetail | None:
    """The task if it belongs to the tenant. Of long histories the newest events and log lines."""
    task = tenant_task(tenant_id, public_id)
    if task is None:
        return None
    (row,) = read(
        """
        SELECT t.tool_id, t.tool_name, o.name, s.id, s.name, c.id, c.name, t.arguments, t.worker, t.lease_until,
               t.crashes, t.max_attempts, t.at_least_once, t.run_seconds, t.runnable_at, t.expires_at, t.last_polled_at,
               t.idempotency_key, t.client_info, t.trace,
               (SELECT count(*) FROM worker WHERE stopped_at IS NULL AND heartbeat_at > now() - interval '30 seconds'),
               t.rerun_of_id
        FROM task t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
        JOIN auth_context c ON c.id = t.context_id WHERE t.id = %s
        """,
        [task.id],
    )
    origin, copies = _relatives(task.id, row[-1])
    values = list(row[:-1])
    for place in (7, 18, 19):
        values[place] = loaded(values[place])
    parts = (origin, copies, _asked(task.id), _attempts(task.id), _events(task.id), _lines(task.id))
    return TaskDetail(*[task, *values, *parts])


def _attempts(task_id: int) -> tuple[AttemptRow, ...]:
    found = read(
        "SELECT number, worker, started_at, ended_at, outcome, error FROM attempt WHERE task_id = %s"
        " ORDER BY number DESC LIMIT %s",
        [task_id, EVENTS],
    )
    return tuple(AttemptRow(*row) for row in reversed(found))


def _events(task_id: int) -> tuple[EventRow, ...]:
    found = read(
        "SELECT id, at, action, actor, door, address, reason, before, after FROM event WHERE task_id = %s"
        " ORDER BY id DESC LIMIT %s",
        [task_id, EVENTS],
    )
    return tuple(EventRow(*[*row[:7], loaded(row[7]), loaded(row[8])]) for row in reversed(found))


def _lines(task_id: int) -> tuple[StoredLine, ...]:
    found = read(
        "SELECT id, level, text, progress, total, at FROM task_log WHERE task_id = %s ORDER BY id DESC LIMIT %s",
        [task_id, LINES],
    )
    return tuple(StoredLine(*row) for row in reversed(found))


def _relatives(task_id: int, origin_id: int | None) -> tuple[Relative | None, tuple[Relative, ...]]:
    found = read(
        "SELECT id, public_id, state, is_error, created_at FROM task WHERE id = %s OR rerun_of_id = %s"
        " ORDER BY id = %s DESC NULLS LAST, id DESC LIMIT 21",
        [origin_id, task_id, origin_id],
    )
    rows = [(row[0], Relative(row[1], State(row[2]), row[3], row[4])) for row in found]
    origin = next((relative for key, relative in rows if key == origin_id), None)
    return origin, tuple(relative for key, relative in rows if key != origin_id)


def _asked(task_id: int) -> tuple[Asked, ...]:
    votes: dict[int, list[Vote]] = {}
    for question_id, *vote in read(
        "SELECT d.question_id, d.actor, d.verdict, d.reason, d.door, d.at FROM decision d"
        " JOIN question q ON q.id = d.question_id WHERE q.task_id = %s ORDER BY d.id",
        [task_id],
    ):
        votes.setdefault(question_id, []).append(Vote(*vote))
    found = read(
        'SELECT id, key, kind, state, params::text, audience, "group", quorum, live, response, opened_at, closed_at,'
        " due_at FROM question WHERE task_id = %s ORDER BY id DESC LIMIT %s",
        [task_id, EVENTS],
    )
    asked = []
    for row in reversed(found):
        params, unreadable = foreign(row[4])
        values = [*row, unreadable]
        values[2:6] = [QuestionKind(row[2]), QuestionState(row[3]), params, Audience(row[5])]
        asked.append(Asked(*[*values, tuple(votes.get(row[0], ()))]))
    return tuple(asked)
