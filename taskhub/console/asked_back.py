"""What the card of an approval shows of the questions that approvers asked the requester."""

from __future__ import annotations

from typing import Any

from taskhub.console.forms.questions import AskBackForm
from taskhub.console.requests import ConsoleRequest
from taskhub.control import asked_back as use_cases
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.inbox import InboxItem


def asked_back(request: ConsoleRequest, item: InboxItem) -> dict[str, Any]:
    """The template context of an approval: what approvers asked the requester, and the form with which the person can
    ask, with how the requester is reached or why they cannot be asked. Empty for any other kind of question. If
    somebody else has to decide, there is no form."""
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
