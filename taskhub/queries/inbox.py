"""Open questions as the people who answer them see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.records import OpenQuestion, Person
from taskhub.core.states import Audience, QuestionKind, QuestionState, State
from taskhub.queries._read import foreign, loaded, read

SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's or client's decision on a question."""

    actor: str
    verdict: str
    reason: str
    door: str
    at: datetime


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A question with the task it holds up. `mine`: the person may decide it and has not yet."""

    id: int
    task_id: int
    public_id: str
    tool_name: str
    server: str
    client: str
    task_state: State
    key: str
    kind: QuestionKind
    state: QuestionState
    params: dict[str, Any]
    arguments: dict[str, Any]
    audience: Audience
    group: str
    quorum: int
    approvals: int
    opened_at: datetime
    closed_at: datetime | None
    due_at: datetime | None
    mine: bool
    decided_by_me: bool
    message: str
    last_actor: str
    last_verdict: str
    unreadable: str = ""
    """Why `params` are empty although something was asked."""

    @property
    def question(self) -> OpenQuestion:
        """As the lifecycle takes it."""
        return OpenQuestion(
            key=self.key,
            kind=self.kind,
            params=self.params,
            audience=self.audience,
            group=self.group,
            quorum=self.quorum,
            approvals=self.approvals,
        )


# What a person may decide: never a question for the client alone; approvals only with that
# permission; a question for a group only from inside it.
_REACH = (
    "(q.audience <> 'client' AND (q.kind <> 'approval' OR %(approve)s)"
    ' AND (q."group" = \'\' OR q."group" = ANY(%(groups)s)))'
)
_DECIDED = "EXISTS (SELECT 1 FROM decision d WHERE d.question_id = q.id AND d.user_id = %(user)s)"
_MINE = f"(q.state = 'open' AND {_REACH} AND NOT {_DECIDED})"

_SELECT = f"""
    SELECT q.id, t.id, t.public_id, t.tool_name, s.name, c.name, t.state, q.key, q.kind, q.state, q.params::text,
           t.arguments, q.audience, q."group", q.quorum,
           (SELECT count(*) FROM decision d WHERE d.question_id = q.id AND d.verdict = 'approve'),
           q.opened_at, q.closed_at, q.due_at, {_MINE}, {_DECIDED}, t.message, coalesce(l.actor, ''),
           coalesce(l.verdict, '')
    FROM question q JOIN task t ON t.id = q.task_id JOIN auth_context c ON c.id = t.context_id
    JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
    LEFT JOIN LATERAL (SELECT actor, verdict FROM decision d WHERE d.question_id = q.id
                       ORDER BY d.id DESC LIMIT 1) l ON true
    WHERE q.tenant_id = %(tenant)s
"""


def open_count(person: Person, *, approve: bool) -> int:
    """How many questions wait for the person."""
    (row,) = read(
        f"SELECT count(*) FROM question q WHERE q.tenant_id = %(tenant)s AND {_MINE}",
        _params(person, approve),
    )
    return int(row[0])


def mine_of(person: Person, task_id: int, *, approve: bool) -> frozenset[int]:
    """The questions of the task that wait for the person."""
    found = read(
        f"SELECT q.id FROM question q WHERE q.tenant_id = %(tenant)s AND q.task_id = %(task)s AND {_MINE}",
        {**_params(person, approve), "task": task_id},
    )
    return frozenset(number for (number,) in found)


def questions(person: Person, queue: str, *, approve: bool, limit: int = SHOWN) -> tuple[InboxItem, ...]:
    """A queue: `mine`, `all` open ones of the tenant (both oldest first), or the last `decided`."""
    condition, order = {
        "mine": (_MINE, "q.opened_at, q.id"),
        "all": ("q.state = 'open'", "q.opened_at, q.id"),
        "decided": ("q.state <> 'open'", "q.closed_at DESC, q.id DESC"),
    }[queue]
    sql = f"{_SELECT} AND {condition} ORDER BY {order} LIMIT %(limit)s"
    return tuple(_item(row) for row in read(sql, {**_params(person, approve), "limit": limit}))


def question(person: Person, question_id: int, *, approve: bool) -> InboxItem | None:
    """One question of the person's tenant, open or not."""
    found = read(f"{_SELECT} AND q.id = %(id)s", {**_params(person, approve), "id": question_id})
    return _item(found[0]) if found else None


def votes(question_id: int) -> tuple[Vote, ...]:
    """Who decided what, in order."""
    found = read(
        "SELECT actor, verdict, reason, door, at FROM decision WHERE question_id = %s ORDER BY id", [question_id]
    )
    return tuple(Vote(*row) for row in found)


def _params(person: Person, approve: bool) -> dict[str, object]:
    return {
        "tenant": person.tenant_id,
        "user": person.user_id,
        "groups": sorted(person.groups),
        "approve": approve,
    }


def _item(row: tuple[Any, ...]) -> InboxItem:
    params, unreadable = foreign(row[10])
    values = [*row, unreadable]
    values[6] = State(row[6])
    values[8:13] = [
        QuestionKind(row[8]),
        QuestionState(row[9]),
        params,
        _object(row[11]),
        Audience(row[12]),
    ]
    return InboxItem(*values)


def _object(value: Any) -> dict[str, Any]:
    value = loaded(value)
    return value if isinstance(value, dict) else {}
