"""What a rule said of the approval that it asked for, read from the params of the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.core.rules import EVERY_ARGUMENT, Otherwise, Preview, Risk, preview_from_json


@dataclass(frozen=True, slots=True)
class Asking:
    """What the rule said of an approval. All fields are empty if a tool, not a rule, waits for a person to confirm
    it."""

    risk: Risk = Risk.LOW
    second_factor: bool = False
    """Whether the person who approves has to confirm their second factor."""
    sentence: tuple[tuple[str, bool], ...] = ()
    """What will happen, as pairs of a part of the sentence and whether that part is a value of the call; other parts
    are the rule's own words."""

    otherwise: Otherwise | None = None
    """What happens if nobody decides in time. `None`: the call fails."""
    escalate_to: str = ""
    """The group that is asked if nobody decides in time, or that was asked because nobody did."""
    escalated_from: str | None = None
    """The group that was asked before and did not decide. Empty stands for all who may approve; `None` means that
    nobody was asked before."""
    preview: Preview | None = None
    """The call that shows people what the call in question would do (`domain.questions.previews`)."""
    editable: tuple[str, ...] = ()
    """The arguments that people may change before they approve the call (`core.rules.Rule.editable`)."""

    def may_edit(self, argument: str) -> bool:
        """Whether people may change this argument."""
        return argument in self.editable or self.editable == (EVERY_ARGUMENT,)

    @property
    def by_word(self) -> bool:
        """Whether people can approve the call by their word alone: without a second factor, a name to type or a preview
        to see."""
        return not (self.second_factor or self.critical or self.preview)

    @property
    def critical(self) -> bool:
        """Whether the person who approves has to confirm which call it is."""
        return self.risk is Risk.CRITICAL


def asking(params: dict[str, Any]) -> Asking:
    """What the rule said, from the params of the approval's question."""
    decided = params.get("decided")
    if not isinstance(decided, dict):
        return Asking()
    parts = decided.get("sentence")
    told = [str(part) for part in parts] if isinstance(parts, list) else []
    return Asking(
        risk=Risk(decided.get("risk", Risk.LOW)),
        second_factor=decided.get("second_factor") is True,
        sentence=tuple((part, at % 2 == 1) for at, part in enumerate(told) if part),
        otherwise=Otherwise(decided["otherwise"]) if "otherwise" in decided else None,
        escalate_to=decided.get("escalate_to", ""),
        escalated_from=decided.get("escalated_from"),
        preview=preview_from_json(decided["preview"]) if "preview" in decided else None,
        editable=tuple(decided.get("editable", ())),
    )
