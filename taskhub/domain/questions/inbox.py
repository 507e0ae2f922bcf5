"""Open questions, for the people who answer them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from taskhub.core import calls, permissions
from taskhub.core.asking import Asking, asking
from taskhub.core.records import OpenQuestion, Person
from taskhub.core.states import Audience, QuestionKind, QuestionState, State
from taskhub.domain.foreign import Foreign, foreign
from taskhub.store import statements

SHOWN: Final = 100
_ALL_OF_IT: Final = 2**31 - 1


class Obstacle(StrEnum):
    """Why a person may not answer a question."""

    NONE = ""
    CLOSED = "closed"
    DECIDED = "decided"
    """The person has decided already, and others still have to."""
    CLIENT = "client"
    """Only the client of the call may answer."""
    ROLE = "role"
    """The person's role may not approve, or not authorize a server for everyone."""
    GROUP = "group"
    PERSON = "person"
    """Only the person for whom the call is made may authorize its server."""
    OVERDUE = "overdue"
    """The time is over, and the rule that asked decides."""
    REQUESTER = "requester"
    """The person made the call through an application, and by the rule somebody else decides."""
    RERAN = "reran"
    """The person ran the call again, and by the rule somebody else decides."""
    FRESH = "fresh"
    """The person got their rights after the call was made."""
    GOVERNED = "governed"
    """The person changed the rules, or somebody's rights, after the call was made."""


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
    """A question with its task, and the obstacle for the person who reads it. In a list, `arguments` has only those
    within the first `calls.BEGINNING` characters. `left_at`: when the caller of the plain call left; `None`
    otherwise."""

    id: int
    task_id: int
    public_id: str
    tool_name: str
    server: str
    client: str
    task_state: State
    left_at: datetime | None
    key: str
    kind: QuestionKind
    state: QuestionState
    asked: Foreign
    arguments: dict[str, Any]
    audience: Audience
    group: str
    quorum: int
    approvals: int
    opened_at: datetime
    closed_at: datetime | None
    due_at: datetime | None
    obstacle: Obstacle
    message: str
    last_actor: str
    last_verdict: str

    @property
    def mine(self) -> bool:
        """Whether the person may answer it, and has not decided yet."""
        return self.obstacle is Obstacle.NONE

    @property
    def decided_by_me(self) -> bool:
        """Whether the person has decided, and the question waits for others."""
        return self.obstacle is Obstacle.DECIDED

    @property
    def is_over(self) -> bool:
        """Whether the question's time is over: the next sweep of a worker ends it, or does what its rule says."""
        return self.closed_at is None and self.due_at is not None and self.due_at < datetime.now(UTC)

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
        """Why `params` are empty although the question has some."""
        return self.asked.unreadable

    @property
    def edited(self) -> dict[str, Any] | None:
        """What people are asked to approve instead of the client's arguments (`domain.tasks.edits`); else `None`."""
        found = self.params.get("edited") if self.kind is QuestionKind.APPROVAL else None
        return found if isinstance(found, dict) else None

    @property
    def runs_with(self) -> dict[str, Any]:
        """The arguments that the question is about: those of the client, or edited ones."""
        found: dict[str, Any] = self.arguments if self.edited is None else self.edited["arguments"]
        return found

    @property
    def called(self) -> str:
        """The call's arguments in a few words."""
        named = calls.named(self.params)
        return calls.short({**named, **self.runs_with}, named)

    @property
    def question(self) -> OpenQuestion:
        """The question as `answer_question` and `decide_approval` take it."""
        return OpenQuestion(
            key=self.key,
            kind=self.kind,
            params=self.params,
            audience=self.audience,
            group=self.group,
            quorum=self.quorum,
            approvals=self.approvals,
        )


_READ = {"asked": foreign, "arguments": calls.begun}
_COUNT = statements.one("count_mine", int)
_MINE_OF_TASK = statements.many("mine_of_task", int)
_MINE = statements.many("inbox_mine", InboxItem, convert=_READ)
_ALL = statements.many("inbox_all", InboxItem, convert=_READ)
_DECIDED = statements.many("inbox_decided", InboxItem, convert=_READ)
_ONE = statements.maybe("inbox_question", InboxItem, convert=_READ)
_OF_TASK = statements.maybe("question_of_task", int)
_VOTES = statements.many("question_votes", Vote)


def open_count(person: Person) -> int:
    """How many questions wait for the person."""
    return _COUNT(**_reader(person))


def mine_of(person: Person, task_id: int) -> frozenset[int]:
    """The questions of the task that wait for the person."""
    return frozenset(_MINE_OF_TASK(**_reader(person), task=task_id))


def questions(person: Person, queue: str, *, limit: int = SHOWN) -> tuple[InboxItem, ...]:
    """The questions in a queue: `mine` or `all` open ones of the tenant, the oldest first, or the last `decided`, the
    newest first."""
    read = {"mine": _MINE, "all": _ALL, "decided": _DECIDED}[queue]
    return tuple(read(**_reader(person), arguments=calls.BEGINNING, most=limit))


def question(person: Person, question_id: int) -> InboxItem | None:
    """One question of the person's tenant, open or not."""
    return _ONE(**_reader(person), arguments=_ALL_OF_IT, question=question_id)


def question_for_shell(tenant_id: int, question_id: int) -> InboxItem | None:
    """One question of the tenant, open or not, for a shell, which has no role and no groups."""
    reader: dict[str, Any] = {"tenant": tenant_id, "user": None, "groups": [], "approve": True, "manage": True}
    return _ONE(**reader, arguments=_ALL_OF_IT, question=question_id)


def question_of_task(tenant_id: int, public_id: str, key: str) -> int | None:
    """The id of the task's question of that key; if there is none, the id of the task's newest open question."""
    return _OF_TASK(tenant=tenant_id, task=public_id, key=key)


def votes(question_id: int) -> tuple[Vote, ...]:
    """The decisions on the question, the oldest first."""
    return tuple(_VOTES(question=question_id))


def _reader(person: Person) -> dict[str, object]:
    return {
        "tenant": person.tenant_id,
        "user": person.user_id,
        "groups": sorted(person.groups),
        "approve": permissions.allows(person, "question.approve"),
        "manage": permissions.allows(person, "server.manage"),
    }
