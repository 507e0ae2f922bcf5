"""Words and icon of news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskhub.domain.questions.news import News

STUCK: Final = ("exclamation-triangle", "", "too few people can decide this")
_LOOKS: Final = {
    "question.asked": ("inbox-arrow-down", "", "waits for you"),
    "question.reminded": ("bell-alert", "", "a reminder: nobody has decided"),
    "question.handed.over": ("arrow-uturn-right", "handed over to you by", ""),
    "question.commented": ("chat-bubble-left-ellipsis", "comment by", ""),
    "question.undone": ("arrow-uturn-left", "a decision was undone by", ""),
    "question.answered.back": ("chat-bubble-left-right", "a reply to what you asked, by", ""),
}
"""For each event: the icon, the words before its actor, and the words where the actor is not named."""
_ESCALATED: Final = ("bell-alert", "", "nobody decided in time: your group is asked")


@dataclass(frozen=True, slots=True)
class NewsRow:
    """One row of the news. `happened` says what happened; `by` is who did it, empty if the row does not name them."""

    item: News
    icon: str
    happened: str
    by: str


def row_of(item: News) -> NewsRow:
    """The news as a row."""
    icon, doing, told = _LOOKS[item.action]
    if item.stuck:
        icon, doing, told = STUCK
    elif item.escalated and item.group:
        icon, doing, told = _ESCALATED
    return NewsRow(item, icon, doing or told, item.actor if doing else "")
