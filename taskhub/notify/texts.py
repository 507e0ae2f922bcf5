"""Texts in messages to people: the beginning and title of a message about one question, and text of others made
visible."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.lib.signs import spelled

MAX_TITLE: Final = 500
"""The most characters of a sentence in a message."""
MAX_NAME: Final = 120
"""The most characters of a name in a message."""
BEGINS: Final = {
    "approval.asked": "Decide",
    "approval.reminded": "Still waiting",
    "approval.undecidable": "Nobody can decide",
    "question.asked": "Answer",
    "server.unauthorized": "Authorize",
    "outcome.unknown": "Say what happened",
}
"""How a message about one question begins, by the kind of news."""


@dataclass(frozen=True, slots=True)
class Item:
    """A question that a message tells of, mostly an approval. `sentence` is what the rule says will happen; without one
    it is empty. `risky`: the rule says that its risk is high or critical. `quorum`: how many people have to approve."""

    kind: str
    sentence: str
    tool: str
    server: str
    client: str
    group: str
    critical: bool
    risky: bool
    second_factor: bool
    quorum: int
    due_at: datetime | None
    url: str

    @property
    def title(self) -> str:
        """What will happen, or which tool is called."""
        return title_of(self.kind, self.sentence, self.tool, self.server)

    @property
    def is_approval(self) -> bool:
        """Whether somebody is to approve a call."""
        return self.kind.startswith("approval.")


def title_of(kind: str, sentence: str, tool: str, server: str) -> str:
    """The title of a message about one question. For an approval it is the rule's sentence, if there is one; otherwise
    it says what is asked, by the kind of news."""
    match kind:
        case "question.asked":
            return f"A question of {tool}"
        case "server.unauthorized":
            return f"The server {server}"
        case "outcome.unknown":
            return f"Nobody knows whether {tool} ran"
    return sentence or f"A call of {tool}"


def visible(text: str, most: int = MAX_TITLE) -> str:
    """Text of others for a message: on one line, and with each invisible character spelled out. A text of more than
    `most` characters is cut, and ends with `…`."""
    text = spelled(text[: most + 1].encode("utf-8", "replace").decode())
    return text if len(text) <= most else f"{text[:most].rstrip()} …"
