"""Runs a task again, as a new task that is linked to the old one."""

from __future__ import annotations

from taskhub.core.errors import NotFound, Refused
from taskhub.core.records import Actor, NewTask, TaskRecord
from taskhub.core.rules import Then
from taskhub.core.states import TERMINAL, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.catalogue.view import catalogue, tool_by_id
from taskhub.domain.tasks.create import create_task
from taskhub.domain.tasks.recheck import decide, runs_with
from taskhub.store.models import Task


def rerun_task(tenant_id: int, public_id: str, actor: Actor) -> TaskRecord:
    """Create a task with the same tool and owner, and the arguments with which the old task ran: edited ones, if people
    approved those. The old task stays as it is.

    The present rules and the tool's present policy apply, so approval is asked for again. The old task's idempotency
    key and answers are not reused. Raises `NotFound` for another tenant's task, `Refused` while the task is live, if
    its tool is disabled or gone, or if a rule denies the call, and whatever `create_task` raises.
    """
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
    rules = catalogue(tenant_id).rules
    verdict = rules.let_pass(decide(old, tool, rules), tool)
    if verdict.then is Then.DENY and verdict.rule is not None:
        raise Refused(f"The rule {verdict.rule.name} denies this call, so it cannot be run again.")
    return create_task(
        NewTask(
            tenant_id=tenant_id,
            context_id=old.context_id,
            tool=tool,
            arguments=runs_with(old),
            verdict=verdict,
            revision=old.revision,
            client_info=old.client_info,
            client_capabilities=old.client_capabilities,
            rerun_of=old.pk,
        ),
        actor,
    ).task
