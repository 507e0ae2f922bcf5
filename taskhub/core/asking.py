"""What the rule that asked for an approval said of it then, as the question keeps it in its params."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.core.rules import EVERY_ARGUMENT, Otherwise, Preview, Risk, preview_from_json


@dataclass(frozen=True, slots=True)
class Asking:
    """What a rule said of an approval. Empty where a tool waits for a person to confirm it."""

    risk: Risk = Risk.LOW
    sentence: tuple[tuple[str, bool], ...] = ()
    """What will happen, in parts, each with whether it is a value of the call and not the rule's own text."""

    otherwise: Otherwise | None = None
    """What happens if nobody decides in time. `None`: the call fails."""
    escalate_to: str = ""
    """The group that is asked then, or was asked."""
    escalated_from: str | None = None
    """The group that did not decide, where this is the second to be asked; empty for all who may approve."""
    preview: Preview | None = None
    """What is called to show what the call would do (`domain.questions.previews`)."""
    editable: tuple[str, ...] = ()
    """The arguments that people may change before they approve the call (`core.rules.Rule.editable`)."""

    def may_edit(self, argument: str) -> bool:
        """Whether people may change this argument."""
        return argument in self.editable or self.editable == (EVERY_ARGUMENT,)

    @property
    def critical(self) -> bool:
        """Whether who approves has to confirm which call it is."""
        return self.risk is Risk.CRITICAL


def asking(params: dict[str, Any]) -> Asking:
    """What the rule said, by the params of the approval's question."""
    decided = params.get("decided")
    if not isinstance(decided, dict):
        return Asking()
    parts = decided.get("sentence")
    told = [str(part) for part in parts] if isinstance(parts, list) else []
    return Asking(
        risk=Risk(decided.get("risk", Risk.LOW)),
        sentence=tuple((part, at % 2 == 1) for at, part in enumerate(told) if part),
        otherwise=Otherwise(decided["otherwise"]) if "otherwise" in decided else None,
        escalate_to=decided.get("escalate_to", ""),
        escalated_from=decided.get("escalated_from"),
        preview=preview_from_json(decided["preview"]) if "preview" in decided else None,
        editable=tuple(decided.get("editable", ())),
    )
