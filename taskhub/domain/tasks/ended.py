"""Calls that have ended and can run again, and what the rules make of them now (`rerun` runs them)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import NewQuestion, ToolRecord
from taskhub.core.rules import Then, Verdict
from taskhub.core.states import TERMINAL, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.rules.decisions import Rules, denied_why
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.create import approval_question
from taskhub.domain.tasks.edits import check_fit, check_readable, differing
from taskhub.domain.tasks.recheck import decide, runs_with
from taskhub.lib import jsonx
from taskhub.store.models import Task


@dataclass(frozen=True, slots=True)
class Origin:
    """A call that has ended and can run again. `arguments` are those with which it ran: edited ones, if people approved
    those."""

    task: Task
    tool: ToolRecord
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rerun:
    """A call as it would run again now."""

    origin: Origin
    arguments: dict[str, Any]
    verdict: Verdict

    @property
    def approval(self) -> NewQuestion | None:
        """The approval that the call needs; `None` if it runs without."""
        return approval_question(self.origin.tool, self.arguments, self.verdict)

    @property
    def mark(self) -> str:
        """A digest of everything that a person is shown before running it."""
        asked, bypass = self.approval, self.verdict.bypass
        shown = [
            self.origin.tool.digest,
            self.arguments,
            None if asked is None else [asked.params, asked.group, asked.quorum],
            None if bypass is None else bypass.stored(),
        ]
        return hashlib.sha256(jsonx.canonical(shown)).hexdigest()


def find_origin(tenant_id: int, public_id: str) -> Origin:
    """The call of a task that is to run again. Raises `NotFound` for another tenant's task; `Refused` while the task is
    live, if it was only decided here, or if its tool is disabled, gone or waits for a person to confirm it."""
    old = (
        Task.objects.select_related("tool__server", "context").filter(public_id=public_id, tenant_id=tenant_id).first()
    )
    if old is None:
        raise NotFound("Task not found")
    if State(old.state) not in TERMINAL:
        raise Refused(f"Task {public_id} is still {old.state}: it can be run again when it has ended.")
    if old.revision == DECIDED_ONLY:
        raise Refused("This call was only decided here: its client makes it itself, and asks again for another one.")
    if not old.tool.enabled or old.tool.gone_at is not None or not old.tool.server.enabled:
        raise Refused(f"{old.tool_name} is not offered at present, so it cannot be run again.")
    if old.tool.server.review and old.tool.confirmed_digest != old.tool.digest:
        raise Refused(f"{old.tool_name} waits for a person to confirm it, so it cannot be run again.")
    tool = tool_by_id(old.tool_id)
    assert tool is not None  # its tasks keep a tool from being deleted
    return Origin(old, tool, runs_with(old))


def find_rerun(tenant_id: int, public_id: str, arguments: dict[str, Any] | None = None) -> Rerun:
    """The call of a task as it would run again: with the arguments with which the task ran, or with `arguments`. The
    present rules and the tool's present policy apply.

    Raises what `find_origin` raises; `Refused` if a rule denies the same call; `Invalid` if `arguments` are the same,
    are too large or do not fit the tool's schema, or if a rule denies the call with them."""
    origin = find_origin(tenant_id, public_id)
    if arguments is not None:
        check_readable(arguments)
        if not differing(origin.arguments, arguments):
            raise Invalid("Nothing is changed. Run the call again as it was, or change an argument.")
        check_fit(origin.tool, arguments)
    given = origin.arguments if arguments is None else arguments
    rules = Rules(present(tenant_id))
    verdict = rules.let_pass(decide(origin.task, origin.tool, rules, given), origin.tool)
    if verdict.then is Then.DENY and verdict.rule is not None:
        if arguments is not None:
            raise Invalid(f"By the rules, the call with these arguments is denied: {denied_why(verdict)}")
        raise Refused(f"The rule {verdict.rule.name} denies this call, so it cannot be run again.")
    return Rerun(origin, given, verdict)
