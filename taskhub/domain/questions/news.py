"""News: what reached a person in the console, and how far they have read it.

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
"""Events of each kind that are looked at, the newest of the tenant: of older ones no news is shown."""
DAYS: Final = 30
"""How old news may be."""
DAY_SECONDS: Final = 86_400
"""How long a list of news can be marked as read."""
_PURPOSE: Final = "news"


@dataclass(frozen=True, slots=True)
class News:
    """What happened last to a question, as it concerns the person who reads it. `stuck`: the person is an administrator
    and fewer people can decide it than have to. `below` and `still_open`: what could be seen when this was read."""

    id: int
    action: str
    """Of the event: `question.asked`, `question.reminded`, `question.handed.over`, `question.commented`,
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
    """If an approver asks the requester: the approval."""
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
        """Whether it came to this group since nobody of another had decided in time."""
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
    """What reached the person, the newest first, `most` at most: each question once, by what happened to it last.

    That is: what waits for them and was asked, escalated to their group, reminded of or handed over to them; comments
    of others on what waits for them or they took part in; decisions that others undid of such; replies to what they
    asked the requester; and for administrators, approvals that too few people can decide. What is no longer open is
    left out, except comments and what was undone.
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
    """Store that the person has read what could be seen then. An older list than the last one changes nothing."""
    _READ(tenant=tenant_id, user=user_id, below=below, still_open=list(still_open))


def until_token(user_id: int, *, below: int, still_open: Sequence[int]) -> str:
    """A signed string that says how far a list of news goes, for `until_of`."""
    return Signer(settings.SECRET_KEY.encode()).sign(_PURPOSE, [user_id, below, list(still_open)], seconds=DAY_SECONDS)


def until_of(user_id: int, token: str) -> tuple[int, list[int]] | None:
    """What `until_token` was given for this person; `None` for anything else, or one that is too old."""
    try:
        person, below, still_open = Signer(settings.SECRET_KEY.encode()).verify(_PURPOSE, token)
    except InvalidToken:
        return None
    return (below, still_open) if person == user_id else None
