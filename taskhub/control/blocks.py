"""The use case beside a rejection: block the tool for the client for an hour."""

from __future__ import annotations

from datetime import UTC, datetime

from taskhub.control import questions, rules
from taskhub.control.caller import Caller
from taskhub.core.errors import Invalid, Refused
from taskhub.core.rules import Rule
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.blocks import blocked_by
from taskhub.domain.questions.inbox import InboxItem

_TRIES = 3


def block_tool(caller: Caller, item: InboxItem, *, reason: str) -> tuple[bool, Rule]:
    """Reject the call, and let a rule at the top of the list deny this client's calls of this tool for an hour. If
    somebody else has decided on the call already, only the rule is saved. Returns whether it was rejected, and the
    rule.

    Raises `Forbidden` unless the caller may change the rules and decide on the call, `Invalid` naming the field without
    a reason or if no rule can be added, or `Refused` if the rules keep changing meanwhile: the call is rejected then.
    """
    caller.require("server.manage", f"block {item.tool_name} for {item.client}")
    if item.kind is not QuestionKind.APPROVAL:
        raise Invalid("Only a call that waits for an approval is rejected.")
    # First the rejection: who changes the rules does not decide on calls that were made before.
    outcome = questions.decide_approval(caller, item, approve=False, reason=reason)
    for _ in range(_TRIES):
        listed = rules.rules(caller)
        made, wanted = blocked_by(item.task_id, listed.rules, datetime.now(UTC))
        try:
            rules.save_rules(caller, wanted, expected=listed.version, reason=reason)
        except Refused:
            continue  # Somebody else saved the rules at the same moment.
        return outcome is AnswerOutcome.ANSWERED, made
    raise Refused("The call is rejected. The rules were changed by others at the same moment, so nothing is blocked.")
