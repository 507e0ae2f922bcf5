"""Use cases of news in the console: read what reached oneself, and mark it as read."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Person
from taskhub.domain.questions import news
from taskhub.domain.questions.news import News


def own_news(caller: Caller) -> tuple[News, ...]:
    """What reached the caller, the newest first: at most one more than `news.SHOWN`. Raises `Forbidden`."""
    return news.news(_person(caller, "read news"))


def until(caller: Caller, shown: Sequence[News]) -> str:
    """A signed string that says how far these news go, for `mark_read`; empty without any."""
    if not shown:
        return ""
    first = shown[0]
    user_id = _person(caller, "read news").user_id
    return news.until_token(user_id, below=first.below, still_open=first.still_open)


def mark_read(caller: Caller, token: str) -> None:
    """Mark all as read that the list of this token could have shown: what came after it stays new. Raises `Forbidden`,
    or `Invalid` for a token of somebody else or of more than a day ago."""
    person = _person(caller, "mark news as read")
    found = news.until_of(person.user_id, token)
    if found is None:
        raise Invalid("This list of news is too old, or not yours: open it again.")
    below, still_open = found
    news.mark_read(person.tenant_id, person.user_id, below=below, still_open=still_open)


def _person(caller: Caller, what: str) -> Person:
    caller.require("question.answer", what)
    if caller.person is None:
        raise Refused("News are a person's own: they read them in the console.")
    return caller.person
