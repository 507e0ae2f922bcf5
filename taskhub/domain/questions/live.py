"""Questions that a tool asks in the middle of its call, and waits for."""

from __future__ import annotations

from taskhub.core.records import Actor, Claim
from taskhub.domain.changes import change, who
from taskhub.store import statements

_DROP = statements.one("drop_question", bool)


def drop_question(claim: Claim, key: str, *, actor: Actor) -> bool:
    """Close a question to which the tool does not want an answer any more; the call goes on. Returns `False` if the
    question was closed before, or the lease is lost; nothing has changed then."""
    return change(_DROP, claim.task_id, task=claim.task_id, epoch=claim.epoch, key=key, who=who(actor))
