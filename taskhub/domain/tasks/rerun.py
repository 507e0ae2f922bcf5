"""Runs a task again, as a new task that is linked to the old one: the same call, or one with other arguments."""

from __future__ import annotations

from typing import Any

from taskhub.core.records import Actor, NewTask, TaskRecord
from taskhub.domain.tasks.create import create_task
from taskhub.domain.tasks.ended import Rerun, find_rerun


def rerun_task(tenant_id: int, public_id: str, actor: Actor, arguments: dict[str, Any] | None = None) -> TaskRecord:
    """Create a task for the same client with the call as `find_rerun` gives it. The old task stays as it is; its
    idempotency key and answers are not reused. Raises what `find_rerun` and `create_task` raise."""
    return make(find_rerun(tenant_id, public_id, arguments), actor)


def make(found: Rerun, actor: Actor) -> TaskRecord:
    """Create the task. Raises what `create_task` raises."""
    old = found.origin.task
    return create_task(
        NewTask(
            tenant_id=old.tenant_id,
            context_id=old.context_id,
            tool=found.origin.tool,
            arguments=found.arguments,
            verdict=found.verdict,
            revision=old.revision,
            client_info=old.client_info,
            client_capabilities=old.client_capabilities,
            rerun_of=old.pk,
        ),
        actor,
    ).task
