"""Writes mails: their subject, text and HTML. Text of others is made visible, put on one line and cut: control
characters, and characters that change the direction of text, are spelled out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.template.loader import render_to_string

from taskhub.notify.texts import BEGINS, MAX_NAME, Item, visible

LISTED: Final = 20
"""How many calls one mail lists; of further calls it says only how many there are."""
ALIKE: Final = 3
"""How many calls of one tool for one client one mail lists."""
MAX_SUBJECT: Final = 150


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub, and the person to whom the mail goes, as the end of each mail names them."""

    url: str
    username: str
    zone: str
    choices_url: str
    stop_url: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """The subject, text and HTML of a mail."""

    subject: str
    text: str
    html: str


def news(items: Sequence[Item], hub: Hub) -> Written:
    """The mail about these approvals, of which there is at least one."""
    shown, folded = _folded(items)
    told = [_visible(item) for item in shown]
    if len(items) == 1:
        subject = f"{BEGINS.get(told[0].kind, 'News')}: {told[0].title}"
    elif all(item.kind == "approval.undecidable" for item in items):
        subject = f"Nobody can decide {len(items)} approvals"
    else:
        subject = _number(items)
    zone = ZoneInfo(hub.zone)
    rows = [
        {
            "item": item,
            "begins": BEGINS.get(item.kind, "News"),
            # Formatted here, because in templates Django would convert the time to the hub's own zone.
            "due": f"{item.due_at.astimezone(zone):%d %b %Y, %H:%M}" if item.due_at else "",
            "folded": folded.get(at, 0),
            "folded_url": f"{hub.url}/inbox/?{_narrowed(shown[at])}",
        }
        for at, item in enumerate(told)
    ]
    more = len(items) - len(told) - sum(folded.values())
    context = {"rows": rows, "number": len(items), "words": _number(items), "more": more}
    return _written("news", subject, hub, context)


def _weight(item: Item) -> tuple[bool, bool, bool, int]:
    """Orders what a mail lists: critical calls first, then risky ones, then those that take a second factor or more
    people."""
    return not item.critical, not item.risky, not item.second_factor, -item.quorum


def _narrowed(item: Item) -> str:
    """The query string that narrows the inbox to calls of its tool for its client."""
    return urlencode({"tool": item.tool, "client": item.client}, errors="replace")


def _folded(items: Sequence[Item]) -> tuple[list[Item], dict[int, int]]:
    """What the mail tells of, calls of one tool for one client together where the first of them stands; and how many of
    them are left out, by the place of the last one that is told."""
    alike: dict[tuple[object, ...], list[Item]] = {}
    # What is riskier, or takes more than one person's word, is never among those left out for others.
    for item in sorted(items, key=_weight):
        key = (item.kind, item.tool, item.server, item.client, item.group, *_weight(item))
        alike.setdefault(key, []).append(item)
    shown: list[Item] = []
    folded: Counter[int] = Counter()
    for group in alike.values():
        told = group[:ALIKE] if len(group) > ALIKE + 1 else group
        told = told[: LISTED - len(shown)]
        shown += told
        if told and len(group) > ALIKE + 1:
            folded[len(shown) - 1] = len(group) - len(told)
    return shown, folded


def _number(items: Sequence[Item]) -> str:
    if all(item.is_approval for item in items):
        return f"{len(items)} approvals wait for a decision"
    return f"{len(items)} questions wait for you"


def confirmation(url: str, hours: int, hub: Hub) -> Written:
    """The mail that asks a person to confirm that an address is theirs."""
    return _written("confirm", "Confirm this address for mails of TaskHub", hub, {"url": url, "hours": hours})


def trial(hub: Hub) -> Written:
    """The test mail that a person sends to themselves."""
    return _written("trial", "A test of TaskHub", hub, {})


def _visible(item: Item) -> Item:
    return replace(
        item,
        sentence=visible(item.sentence),
        tool=visible(item.tool, MAX_NAME),
        server=visible(item.server, MAX_NAME),
        client=visible(item.client, MAX_NAME),
        group=visible(item.group, MAX_NAME),
    )


def _written(name: str, subject: str, hub: Hub, context: dict[str, Any]) -> Written:
    context = {**context, "hub": replace(hub, username=visible(hub.username)), "subject": subject}
    return Written(
        subject=visible(subject, MAX_SUBJECT),
        text=render_to_string(f"mail/{name}.txt", context).strip() + "\n",
        html=render_to_string(f"mail/{name}.html", context),
    )
