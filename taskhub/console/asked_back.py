"""What the card of an approval says of questions to the requester."""

from __future__ import annotations

from typing import Any

from taskhub.console.forms.questions import AskBackForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import asked_back as use_cases
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.inbox import InboxItem


def asked_back(request: ConsoleRequest, item: InboxItem) -> dict[str, Any]:
    """The template context of what approvers asked the requester, and of the form with which the person asks: how they
    are asked, or why they cannot be. Empty for what is no approval; no form if it is not for the person to decide."""
    if item.kind is not QuestionKind.APPROVAL:
        return {}
    if not item.mine:
        return {"asked_back": use_cases.told(request.caller, item)}
    requester = use_cases.requester(request.caller, item)
    return {
        "asked_back": use_cases.told(request.caller, item) if requester.asked else (),
        "requester": requester,
        "unreachable": use_cases.unreachable(requester),
        "ask_form": AskBackForm(auto_id="id_ask_%s"),
    }
