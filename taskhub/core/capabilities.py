"""What a client said it can do, and what follows for questions."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.states import Audience, QuestionKind

KINDS: Final = {
    "elicitation/create": QuestionKind.ELICITATION,
    "sampling/createMessage": QuestionKind.SAMPLING,
    "roots/list": QuestionKind.ROOTS,
}
"""By the method that asks such a question."""


def can_answer(capabilities: dict[str, Any], kind: QuestionKind, params: dict[str, Any]) -> bool:
    """Whether a client with these capabilities may be asked this (B26-62, T26-31).

    `elicitation: {}` means forms only; url mode needs `elicitation.url`.
    """
    if kind is QuestionKind.ELICITATION:
        declared = capabilities.get("elicitation")
        if not isinstance(declared, dict):
            return False
        if params.get("mode") == "url":
            return "url" in declared
        return not declared or "form" in declared
    if kind is QuestionKind.SAMPLING:
        declared = capabilities.get("sampling")
        return isinstance(declared, dict) and ("tools" not in params or "tools" in declared)
    if kind is QuestionKind.ROOTS:
        return isinstance(capabilities.get("roots"), dict)
    return False


def needed_for(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    """The capabilities a client must declare to be asked this, as it would declare them."""
    if kind is QuestionKind.ELICITATION:
        return {"elicitation": {"url": {}} if params.get("mode") == "url" else {"form": {}}}
    if kind is QuestionKind.SAMPLING:
        return {"sampling": {"tools": {}} if "tools" in params else {}}
    return {"roots": {}}


def audience_for(
    capabilities: dict[str, Any], kind: QuestionKind, params: dict[str, Any], policy: Audience | None
) -> Audience:
    """Who is asked: the policy's word, but never a client that cannot answer (design idea 4)."""
    if not can_answer(capabilities, kind, params):
        return Audience.OPERATOR
    return policy or Audience.EITHER
