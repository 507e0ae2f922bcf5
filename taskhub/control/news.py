"""Use cases of news in the console: people read their own news, and mark them as read."""

from __future__ import annotations

from collections.abc import Sequence

from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Person
from taskhub.domain.questions import news
from taskhub.domain.questions.news import News


def own_news(caller: Caller) -> tuple[News, ...]:
    """The caller's news, newest first: at most `news.SHOWN` and one more. Raises `Forbidden`."""
    return news.news(_person(caller, "read news"))


def until(caller: Caller, shown: Sequence[News]) -> str:
    """A signed string that names the newest of the news that were shown, for `mark_read`; empty if there were none."""
    if not shown:
        return ""
    first = shown[0]
    user_id = _person(caller, "read news").user_id
    return news.until_token(user_id, below=first.below, still_open=first.still_open)


def mark_read(caller: Caller, token: str) -> None:
    """Mark as read all news up to the newest that `token` names (`until`). Later news stay unread. Raises `Forbidden`,
    or `Invalid` for a token of somebody else or one that is more than a day old."""
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
