"""Use case for the audit log: export it."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.domain.audit import reads
from taskhub.domain.audit.record import record_export


def begin_export(caller: Caller, *, form: str, query: dict[str, str]) -> int:
    """Record an export in the audit log. Call this before the first byte is sent. Returns the id of the newest event to
    export. Raises `Forbidden`."""
    caller.require("audit.export", f"export the audit log as {form}")
    up_to = reads.newest_event_id(caller.tenant_id)
    record_export(tenant_id=caller.tenant_id, form=form, query=query, up_to=up_to, actor=caller.actor)
    return up_to
