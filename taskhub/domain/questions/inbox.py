"""Open questions, for the people who answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from taskhub.core import calls, permissions
from taskhub.core.asking import Asking, asking
from taskhub.core.records import OpenQuestion, Person
from taskhub.core.states import Audience, QuestionKind, QuestionState, State
from taskhub.domain.foreign import Foreign, foreign
from taskhub.store import statements

SHOWN: Final = 100
"""The most open questions on a page, and most approvals that are decided together."""
SHOWN_DECIDED: Final = 50
"""The most closed questions on a page. They are fewer because each costs more to read."""
FOLD: Final = 3
"""Least number of approvals that are alike for which a list shows one row in place of all."""
_ALL_OF_IT: Final = 2**31 - 1
_UNFOLDED: Final = 2**31 - 1


class Obstacle(StrEnum):
    """Why a person may not answer a question."""

    NONE = ""
    CLOSED = "closed"
    DECIDED = "decided"
    """The person has decided already, and others still have to."""
    DEPUTY = "deputy"
    """The person's deputy has decided for them, and others still have to."""
    CLIENT = "client"
    """Only the client of the call may answer."""
    ROLE = "role"
    """The person's role does not let them approve, or authorize a server for everyone."""
    GROUP = "group"
    PERSON = "person"
    """Only one person may answer: the person for whom the call is made may authorize its server, and the requester who
    is asked about a call may answer that."""
    OVERDUE = "overdue"
    """The time of the approval is over, and the rule that asked for it decides."""
    REQUESTER = "requester"
    """The person made the call through an application, and the rule wants somebody else to decide."""
    RERAN = "reran"
    """The person ran the call again, and the rule wants somebody else to decide."""
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
    second_factor: str
    """The kind of the second factor that the person confirmed, if the rule wants one; otherwise empty."""
    undo_until: datetime | None = None
    """Until when the decision may be undone; `None` if it cannot be."""


class UndoOutcome(StrEnum):
    """The outcome of undoing a decision; the SQL function `undo_decision` says what each one means."""

    UNDONE = "undone"
    LATE = "late"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Undoable:
    """A decision that can be undone: the id of its question, and until when it can be undone."""

    question: int
    until: datetime


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A question with its task, and the obstacle for the person who reads it. In a list, `arguments` has only those
    that end within the first `calls.BEGINNING` characters of the call's arguments as JSON. `made_at`: when the call was
    made. `left_at`: when the caller of a plain call left; `None` if none has. `reminded_at`: when people were reminded
    of the question, as its rule says."""

    id: int
    task_id: int
    public_id: str
    tool_name: str
    server: str
    client: str
    task_state: State
    made_at: datetime
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
    about: int | None
    """The id of the approval about which an approver asks the requester here; `None` for any other question."""
    opened_at: datetime
    closed_at: datetime | None
    due_at: datetime | None
    reminded_at: datetime | None
    obstacle: Obstacle
    message: str
    handed_to: str
    """The person to whom the question was handed over; empty if it was not handed to a person."""
    handed_group: str
    """The group to which the question was handed over; empty if it was not handed to a group."""
    handed_to_me: bool
    last_actor: str
    last_verdict: str
    acts_for: int | None = None
    """The id of the person who is away and for whom the reader would decide as a deputy; `None` if the reader would
    decide for themselves."""
    acts_for_name: str = ""
    not_counted: str = ""
    """Why the call did not run although people approved it in answer to this question: a code of `core.words` if people
    were asked again, `deny` or `hide` if a rule did that to the call; otherwise empty."""
    alike: int = 1
    """In a list of open questions: how many approvals are alike, this one included: they differ in arguments only."""

    @property
    def folded(self) -> bool:
        """Whether a list shows this approval in place of all that are alike."""
        return self.alike >= FOLD

    @property
    def mine(self) -> bool:
        """Whether the person who reads the question may answer it, and has not decided yet."""
        return self.obstacle is Obstacle.NONE

    @property
    def decided_by_me(self) -> bool:
        """Whether the person has decided, and the question waits for others."""
        return self.obstacle is Obstacle.DECIDED

    @property
    def needed(self) -> int:
        """How many people still have to approve."""
        return max(self.quorum - self.approvals, 0)

    @property
    def is_over(self) -> bool:
        """Whether the question's time is over: the next sweep of a worker ends it, or does what its rule says."""
        return self.closed_at is None and self.due_at is not None and self.due_at < datetime.now(UTC)

    @property
    def asked_later(self) -> bool:
        """Whether an approval was not asked for with the call but later, such as for edited arguments."""
        late = self.key != "approval" or (self.opened_at - self.made_at).total_seconds() > 1
        return self.kind is QuestionKind.APPROVAL and late

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
        """The edited arguments that people are asked to approve (`domain.tasks.edits`); `None` if nobody edited any."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFilter:
    """What a queue is narrowed to; an empty value narrows nothing."""

    tool: str = ""
    client: str = ""
    """The client's name."""
    kind: str = ""
    risk: str = ""
    """The risk that the rule of an approval names."""
    group: str = ""
    """The group that is asked."""
    age: str = ""
    """How long ago the question was asked: a key of `AGES`."""
    conversation: str = ""
    """The public id of a call. Only questions of calls of its session are wanted, or of its trace if it has no
    session."""
    words: tuple[str, ...] = ()
    """Words that must all be found in the question and its call: in the call's id, tool, server or client, in the
    group, in what is asked, or within the first `calls.BEGINNING` characters of the arguments. Case does not matter."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Numbers of open questions, for one person. `mine`: questions that wait for the person. `approvals`: approvals
    that they may give, also those that they handed over. `governed`: approvals that they may not give, because they
    changed the rules or somebody's rights after the call was made."""

    mine: int
    approvals: int
    governed: int


class Sort(StrEnum):
    """The order of a queue of open questions."""

    OLDEST = "oldest"
    DUE = "due"
    """The questions whose time ends soonest come first."""
    RISK = "risk"
    """The highest risk comes first."""
    NEWEST = "newest"


EVERYTHING: Final = InboxFilter()
AGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {"": (0.0, 0.0), "1h": (0.0, 3_600.0), "over-1h": (3_600.0, 0.0), "over-1d": (86_400.0, 0.0)}
)
"""For each age of a filter, the least and the most seconds since a question was asked. 0 stands for no bound."""

_READ = {"asked": foreign, "arguments": calls.begun}
_OTHERS = statements.one("others_of_conversation", int)
_WAITING = statements.one("count_waiting", Waiting)
_MINE_OF_TASK = statements.many("mine_of_task", int)
_OPEN = statements.many("inbox_open", InboxItem, convert=_READ)
_ALIKE = statements.many("inbox_alike", InboxItem, convert=_READ)
_DECIDED = statements.many("inbox_decided", InboxItem, convert=_READ)
_ONE = statements.maybe("inbox_question", InboxItem, convert=_READ)
_OF_TASK = statements.maybe("question_of_task", int)
_VOTES = statements.many("question_votes", Vote)


def waiting(person: Person) -> Waiting:
    """How many questions are open for the person."""
    return _WAITING(**reader(person))


def mine_of(person: Person, task_id: int) -> frozenset[int]:
    """The ids of the questions of the task that wait for the person."""
    return frozenset(_MINE_OF_TASK(**reader(person), task=task_id))


def questions(
    person: Person,
    queue: str,
    *,
    wanted: InboxFilter = EVERYTHING,
    sort: Sort = Sort.OLDEST,
    after: int = 0,
    limit: int = SHOWN,
) -> tuple[InboxItem, ...]:
    """The questions in a queue. `mine` are the open questions that wait for the person, `all` those of the tenant, both
    in the order `sort`. `decided` are the closed ones, newest first; `wanted` and `sort` do not apply to it. If `FOLD`
    or more open approvals are alike, only the first of them is returned. `after`: the id of a question; only those
    behind it are returned, or all if it is 0."""
    if queue == "decided":
        return tuple(_DECIDED(**reader(person), arguments=calls.BEGINNING, most=limit, after=after))
    return _open(person, queue, wanted, sort, after=after, limit=limit, fold=FOLD)


def others_of_conversation(task_id: int) -> int:
    """How many other calls of the task's conversation wait for an answer."""
    return _OTHERS(task=task_id)


def following(
    person: Person, queue: str, *, wanted: InboxFilter = EVERYTHING, sort: Sort = Sort.OLDEST, after: int
) -> InboxItem | None:
    """The question that comes after the question `after` in a queue of open questions, where approvals that are alike
    are not folded. After the last question comes the first. `None` if the queue is empty."""
    for start in (after, 0):
        if found := _open(person, queue, wanted, sort, after=start, limit=1, fold=_UNFOLDED):
            return found[0]
    return None


def alike(
    person: Person, question_id: int, *, wanted: InboxFilter = EVERYTHING, limit: int = SHOWN
) -> tuple[InboxItem, ...]:
    """The approvals that wait for the person and differ from this one in arguments only, the oldest first: same client,
    tool and definition, asked by the same rule in the same version, with the same group and quorum. Of these, only
    those that are `wanted`, as in the queue that is narrowed to them; this one is among them if it is. Empty if this
    one does not wait for the person, or is decided by itself: a critical call, one with a preview, with edited
    arguments, with answers that came along, or with long arguments, and one that is asked again."""
    found = _ALIKE(**reader(person), **_narrowing(wanted), arguments=calls.BEGINNING, most=limit, question=question_id)
    return tuple(found)


def _open(
    person: Person, queue: str, wanted: InboxFilter, sort: Sort, *, after: int, limit: int, fold: int
) -> tuple[InboxItem, ...]:
    found = _OPEN(
        **reader(person),
        **_narrowing(wanted),
        arguments=calls.BEGINNING,
        most=limit,
        everything=queue != "mine",
        sort=str(sort),
        after=after,
        fold=fold,
    )
    return tuple(found)


def _narrowing(wanted: InboxFilter) -> dict[str, object]:
    """The filter, as the statements of a narrowed queue take it."""
    older, newer = AGES[wanted.age]
    return {
        "tool": wanted.tool,
        "client": wanted.client,
        "kind": wanted.kind,
        "risk": wanted.risk,
        "of_group": wanted.group,
        "older": older,
        "newer": newer,
        "conversation": wanted.conversation,
        "words": [word.lower() for word in wanted.words],
    }


def question(person: Person, question_id: int) -> InboxItem | None:
    """A question of the person's tenant, open or not; `None` if the tenant has none of this id."""
    return _ONE(**reader(person), arguments=_ALL_OF_IT, question=question_id)


def question_for_shell(tenant_id: int, question_id: int) -> InboxItem | None:
    """A question of the tenant, open or not, as a shell reads it, which has no role and no groups. `None` if the tenant
    has none of this id."""
    reader: dict[str, Any] = {"tenant": tenant_id, "user": None, "groups": [], "approve": True, "manage": True}
    return _ONE(**reader, arguments=_ALL_OF_IT, question=question_id)


def question_of_task(tenant_id: int, public_id: str, key: str) -> int | None:
    """The id of the task's question of that key; if there is none, the id of the task's newest open question."""
    return _OF_TASK(tenant=tenant_id, task=public_id, key=key)


def votes(question_id: int) -> tuple[Vote, ...]:
    """The decisions on the question, the oldest first."""
    return tuple(_VOTES(question=question_id))


def reader(person: Person) -> dict[str, object]:
    """The person who reads questions, as parameters of the statements."""
    return {
        "tenant": person.tenant_id,
        "user": person.user_id,
        "groups": sorted(person.groups),
        "approve": permissions.allows(person, "question.approve"),
        "manage": permissions.allows(person, "server.manage"),
    }
