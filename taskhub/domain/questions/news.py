"""News: what happened to questions that concern a person, and how much of it they have read in the console.

Nothing is written when something happens: news are read from the newest events of the log, for the person who looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from taskhub.core import calls, permissions
from taskhub.core.asking import Asking, asking
from taskhub.core.records import Person
from taskhub.core.states import QuestionKind, QuestionState
from taskhub.domain.foreign import Foreign, foreign
from taskhub.domain.questions.inbox import reader
from taskhub.lib.signing import InvalidToken, Signer
from taskhub.store import statements

SHOWN: Final = 20
"""The most news that a person is shown."""
LOOKED_AT: Final = 80
"""How many events of each kind are looked at: the newest of the tenant. Older events never become news."""
DAYS: Final = 30
"""How many days old news may be."""
DAY_SECONDS: Final = 86_400
"""Seconds for which a list of news that was shown can be marked as read."""
_PURPOSE: Final = "news"


@dataclass(frozen=True, slots=True)
class News:
    """The last event of a question, as it concerns the person who reads it. `stuck`: the person is an administrator,
    and fewer people can decide the question than have to. `below` and `still_open` say which transactions the list had
    seen, so that exactly these can be marked as read."""

    id: int
    action: str
    """The action of the event: `question.asked`, `question.reminded`, `question.handed.over`, `question.commented`,
    `question.undone` or `question.answered.back`."""
    at: datetime
    actor: str
    stuck: bool
    unread: bool
    question: int
    kind: QuestionKind
    state: QuestionState
    tool_name: str
    server: str
    client: str
    asked: Foreign
    arguments: dict[str, Any]
    group: str
    about: int | None
    """The id of the approval about which an approver asks the requester here; `None` for any other question."""
    below: int
    still_open: list[int]

    @property
    def params(self) -> dict[str, Any]:
        """The params of the question."""
        return self.asked.found

    @property
    def asking(self) -> Asking:
        """What the rule said that asked for an approval."""
        return asking(self.params) if self.kind is QuestionKind.APPROVAL else Asking()

    @property
    def escalated(self) -> bool:
        """Whether the approval came to this group because another group did not decide in time."""
        return self.action == "question.asked" and self.asking.escalated_from is not None

    @property
    def called(self) -> str:
        """The call's arguments in a few words."""
        named = calls.named(self.params)
        edited = self.params.get("edited") if self.kind is QuestionKind.APPROVAL else None
        runs_with = edited["arguments"] if isinstance(edited, dict) else self.arguments
        return calls.short({**named, **runs_with}, named)


_NEWS = statements.many("news_of_person", News, convert={"asked": foreign, "arguments": calls.begun})
_READ = statements.rowcount("read_news")


def news(person: Person, *, most: int = SHOWN + 1) -> tuple[News, ...]:
    """News for the person, newest first, at most `most`: each question once, with its last event.

    These are: questions that wait for the person and were asked, escalated to their group, or handed over to them, or
    of which people were reminded; comments by others, and decisions that others undid, on questions that wait for the
    person or in which they took part; replies to what they asked a requester; and for administrators, approvals that
    too few people can decide. Closed questions are left out, except for comments and undone decisions.
    """
    found = _NEWS(
        **reader(person),
        admin=permissions.allows(person, "settings.view"),
        roles=[str(role) for role in permissions.roles_with("question.approve")],
        arguments=calls.BEGINNING,
        each=LOOKED_AT,
        most=most,
        days=DAYS,
    )
    return tuple(found)


def mark_read(tenant_id: int, user_id: int, *, below: int, still_open: Sequence[int]) -> None:
    """Store that the person has read the list of news with this `below` and `still_open` (`News`). A list older than
    the last one that was stored changes nothing."""
    _READ(tenant=tenant_id, user=user_id, below=below, still_open=list(still_open))


def until_token(user_id: int, *, below: int, still_open: Sequence[int]) -> str:
    """A signed string that says how far a list of news goes; `until_of` reads it."""
    return Signer(settings.SECRET_KEY.encode()).sign(_PURPOSE, [user_id, below, list(still_open)], seconds=DAY_SECONDS)


def until_of(user_id: int, token: str) -> tuple[int, list[int]] | None:
    """`below` and `still_open` from a string that `until_token` made for this person; `None` for any other string, or
    if it is older than `DAY_SECONDS`."""
    try:
        person, below, still_open = Signer(settings.SECRET_KEY.encode()).verify(_PURPOSE, token)
    except InvalidToken:
        return None
    return (below, still_open) if person == user_id else None
