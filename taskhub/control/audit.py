"""What people do with the audit log: take a copy of it away."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.domain.audit import reads
from taskhub.domain.audit.record import record_export


def begin_export(caller: Caller, *, form: str, query: dict[str, str]) -> int:
    """Put an export on record before its first byte leaves; returns the id of the newest event that is in it. Raises
    `Forbidden`."""
    caller.require("audit.export", f"export the audit log as {form}")
    up_to = reads.newest_event_id(caller.tenant_id)
    record_export(tenant_id=caller.tenant_id, form=form, query=query, up_to=up_to, actor=caller.actor)
    return up_to
