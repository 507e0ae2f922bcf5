"""Writes messages for services that take a title and a text. Text of others is made visible, cut, and freed of words
that would notify everybody in a room. The link comes first, because services that take short texts cut off the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from taskhub.notify.texts import BEGINS, MAX_NAME, Item, visible

LISTED: Final = 3
"""How many calls one message lists; of further calls it says only how many there are."""
MAX_TITLE: Final = 200
_MENTION: Final = re.compile(r"@(?=(?:all|channel|everyone|here|room)\b)", re.IGNORECASE)
_TAG: Final = re.compile(r"<(?=[@!#])")


@dataclass(frozen=True, slots=True)
class Written:
    """A message, as text of a title and a body."""

    title: str
    body: str


def news(items: Sequence[Item], zone: str, inbox_url: str) -> Written:
    """The message about these questions, of which there is at least one."""
    if len(items) == 1:
        (item,) = items
        lines = [item.url, _call(item)]
        if item.critical:
            lines.append("Critical")
        elif item.risky:
            lines.append("High risk")
        if item.due_at:
            lines.append(f"Until {item.due_at.astimezone(ZoneInfo(zone)):%d %b %Y, %H:%M}")
        return Written(_text(f"{BEGINS.get(item.kind, 'News')}: {item.title}", MAX_TITLE), "\n".join(lines))
    noun = "approvals" if all(item.is_approval for item in items) else "questions"
    lines = [inbox_url, *(f"- {_text(item.title, MAX_TITLE)}" for item in items[:LISTED])]
    if len(items) > LISTED:
        lines.append(f"And {len(items) - LISTED} more")
    return Written(f"{len(items)} {noun} wait for you", "\n".join(lines))


def confirmation(url: str, hours: int, username: str, hub_url: str) -> Written:
    """The message that asks a person to confirm that an address is theirs."""
    who = _text(username, MAX_NAME)
    text = (
        f"{url}\n{who} of TaskHub at {hub_url} wants to be told here of approvals. If that is you, open the link within"
        f" {hours} hours, signed in to TaskHub. Otherwise do nothing."
    )
    return Written("Confirm that this address is yours", text)


def trial(inbox_url: str) -> Written:
    """The test message that a person sends to themselves."""
    return Written("A test of TaskHub", f"{inbox_url}\nMessages about approvals reach you here.")


def _call(item: Item) -> str:
    tool, server, client = (_text(name, MAX_NAME) for name in (item.tool, item.server, item.client))
    return f"{tool} on {server}, for {client}"


def _text(text: str, most: int) -> str:
    return _TAG.sub("< ", _MENTION.sub("(at)", visible(text, most)))
