"""The use case beside a rejection: block the tool for the client for an hour."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from taskhub.control import questions, rules
from taskhub.control.caller import Caller
from taskhub.core.errors import Forbidden, Invalid, Refused
from taskhub.core.rules import Rule
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.blocks import blocked_by, waiting_alongside
from taskhub.domain.questions.inbox import InboxItem

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Blocked:
    """A tool that was blocked for a client by `rule`. `rejected`: whether the caller rejected the call itself; somebody
    else may have decided it before. `alongside`: how many other calls that waited were rejected too. `left`: how many
    calls still wait for others to decide; the rule denies them before they run."""

    rule: Rule
    rejected: bool
    alongside: int
    left: int


def block_tool(caller: Caller, item: InboxItem, *, reason: str) -> Blocked:
    """Reject the call, and all other calls of this tool by this client that wait and that the caller may decide. Then
    add a rule at the top of the list that denies such calls for an hour.

    Raises `Forbidden` unless the caller may change the rules and decide on the call, and `Invalid` naming the field
    without a reason or if no rule can be added. Raises `Refused` if others keep changing the rules; the call is
    rejected then.
    """
    caller.require("server.manage", f"block {item.tool_name} for {item.client}")
    if item.kind is not QuestionKind.APPROVAL:
        raise Invalid("Only a call that waits for an approval is rejected.")
    # Reject first: whoever has changed the rules may not decide on calls that were made before.
    outcome = questions.decide_approval(caller, item, approve=False, reason=reason)
    others = waiting_alongside(item.task_id)
    alongside = _rejected(caller, others, f"Blocked by {caller.actor.name} for an hour: {reason}")
    for _ in range(_TRIES):
        listed = rules.rules(caller)
        made, wanted = blocked_by(item.task_id, listed.rules, datetime.now(UTC))
        try:
            rules.save_rules(caller, wanted, expected=listed.version, reason=reason)
        except Refused:
            continue  # Somebody else saved the rules at the same moment.
        return Blocked(made, outcome is AnswerOutcome.ANSWERED, alongside, len(others) - alongside)
    raise Refused("The call is rejected. The rules were changed by others at the same moment, so nothing is blocked.")


def _rejected(caller: Caller, question_ids: Sequence[int], reason: str) -> int:
    """Reject those of the calls that the caller may decide; returns how many. Calls that others have decided meanwhile
    stay as they are."""
    done = 0
    for question_id in question_ids:
        item = questions.find_question(caller, question_id)
        if item.mine:
            with suppress(Forbidden):  # they may have lost the right to decide since the item was read
                outcome = questions.decide_approval(caller, item, approve=False, reason=reason)
                done += outcome is AnswerOutcome.ANSWERED
    return done
