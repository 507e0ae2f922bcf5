"""Writes messages for Slack as blocks. Text of others stands in objects of the type `plain_text`, in which Slack sees
no mention, link, format or emoji. Before that, the text is made visible and cut, and `&`, `<` and `>` are escaped."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from taskhub.lib import jsonx
from taskhub.notify.texts import BEGINS, MAX_NAME, visible

APPROVE, REJECT, OPEN = "approve", "reject", "open"
"""The ids of the buttons' actions."""
REASON: Final = "reason"
MAX_REASON: Final = 1_000
"""The most characters of a reason."""
MAX_SAID: Final = 400
"""The most characters of the text that a card shows in place of its buttons."""

MAX_TEXT, MAX_SURE = 3_000, 300
"""The most characters that Slack accepts in a text, and in the question of a button."""

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """An approval in a message. `title` is the rule's sentence, or a text in its place. If `said` is not empty, the
    card shows it in place of all buttons but the link. `sure`: whether a click on *Approve* first asks for
    confirmation."""

    id: str
    kind: str
    title: str
    tool: str
    server: str
    client: str
    group: str
    critical: bool
    due_at: datetime | None
    zone: str
    url: str
    is_open: bool
    approve: bool
    reject: bool
    sure: bool
    said: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A message. `text` is what Slack's programs show in notifications."""

    text: str
    blocks: list[Block]

    @property
    def digest(self) -> str:
        """The SHA-256 of the message, in hexadecimal."""
        return hashlib.sha256(jsonx.encode([self.text, self.blocks])).hexdigest()


def news(cards: Sequence[Shown], more: int, inbox_url: str) -> Written:
    """The message with these cards. `more`: how many other approvals wait; `inbox_url`: where the person finds them."""
    blocks: list[Block] = []
    for card in cards:
        if blocks:
            blocks.append({"type": "divider"})
        blocks += _card(card)
    if more:
        blocks += [{"type": "divider"}, _small([f"And {more} more, in the inbox."]), _actions([_link(inbox_url)])]
    number = len(cards) + more
    first = f"{_begins(cards[0])}: {visible(cards[0].title)}" if cards else "Nothing waits."
    noun = "approvals" if all(card.kind.startswith("approval.") for card in cards) else "questions"
    text = first if number == 1 or not cards else f"{number} {noun}"
    return Written(_escaped(text), blocks)


def confirmation(url: str, hours: int, username: str, hub_url: str) -> Written:
    """The message that asks a person to confirm that a Slack account is theirs."""
    text = (
        f"{visible(username, MAX_NAME)} of TaskHub at {hub_url} wants to be told here of approvals, and to decide them"
        f" here. If that is you, open this link within {hours} hours, signed in to TaskHub. Otherwise do nothing."
    )
    blocks = [_section(text), _actions([_link(url, "Confirm in TaskHub")])]
    return Written("Confirm that this Slack account is yours", blocks)


def trial() -> Written:
    """The test message that a person sends to themselves."""
    text = "A test of TaskHub: messages about approvals reach you here."
    return Written(text, [_section(text)])


def reason_view(card: str, title: str) -> dict[str, Any]:
    """The dialog that asks why a call is rejected."""
    return {
        "type": "modal",
        "callback_id": REJECT,
        "private_metadata": card,
        "title": _plain("Reject this call"),
        "submit": _plain("Reject"),
        "close": _plain("Cancel"),
        "blocks": [
            *([_section(visible(title))] if title else []),
            {
                "type": "input",
                "block_id": REASON,
                "label": _plain("Reason"),
                "hint": _plain("The agent reads it."),
                "element": {
                    "type": "plain_text_input",
                    "action_id": REASON,
                    "multiline": True,
                    "max_length": MAX_REASON,
                },
            },
        ],
    }


def _card(card: Shown) -> list[Block]:
    facts = [
        f"{visible(card.tool, MAX_NAME)} on {visible(card.server, MAX_NAME)}, for {visible(card.client, MAX_NAME)}",
        "Critical" if card.critical else "",
        f"Asked: {visible(card.group, MAX_NAME)}" if card.group else "",
        f"Until {card.due_at.astimezone(ZoneInfo(card.zone)):%d %b %Y, %H:%M} ({card.zone})" if card.due_at else "",
    ]
    blocks = [
        _section(f"{_begins(card)}: {visible(card.title)}"),
        _small([fact for fact in facts if fact]),
    ]
    buttons = []
    if card.said:
        blocks.append(_section(visible(card.said, MAX_SAID)))
    else:
        if card.approve:
            buttons.append(_approve(card))
        if card.reject:
            buttons.append(_button(REJECT, "Reject…", card.id, "danger"))
    return [*blocks, _actions([*buttons, _link(card.url)])]


def _begins(card: Shown) -> str:
    return BEGINS.get(card.kind, "News") if card.is_open else "Approval"


def _approve(card: Shown) -> Block:
    button = _button(APPROVE, "Approve", card.id, "primary")
    if card.sure:
        button["confirm"] = {
            "title": _plain("Approve this call?"),
            "text": _plain(visible(card.title), MAX_SURE),
            "confirm": _plain("Approve"),
            "deny": _plain("Cancel"),
        }
    return button


def _button(action: str, words: str, value: str, style: str) -> Block:
    # The buttons of all cards have the same action ids, which only have to differ within a block.
    return {"type": "button", "action_id": action, "text": _plain(words), "value": value, "style": style}


def _link(url: str, words: str = "Open in TaskHub") -> Block:
    return {"type": "button", "action_id": OPEN, "text": _plain(words), "url": url}


def _actions(buttons: list[Block]) -> Block:
    return {"type": "actions", "elements": buttons}


def _section(text: str) -> Block:
    return {"type": "section", "text": _plain(text)}


def _small(texts: list[str]) -> Block:
    return {"type": "context", "elements": [_plain(text) for text in texts]}


def _plain(text: str, most: int = MAX_TEXT) -> dict[str, Any]:
    while len(escaped := _escaped(text)) > most:
        text = f"{text[: len(text) * most // len(escaped) - 3]} …"
    return {"type": "plain_text", "text": escaped, "emoji": False}


def _escaped(text: str) -> str:
    """The text with the three characters escaped that Slack's API takes for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
