"""The `requestState` of a Task: given with each, and checked when it comes back (T2557-14..16)."""

from __future__ import annotations

from typing import Final

from taskhub.core.records import TaskRecord
from taskhub.lib.signing import InvalidToken
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.stateless.request import Request

STATE_SECONDS: Final = 30 * 86_400
_PURPOSE: Final = "sep-2557/task"


def request_state(hub: Hub, request: Request, task: TaskRecord) -> str:
    """A fresh value. It differs each time, and all of them are good for their time (T2557-15)."""
    return hub.signer.encrypt(_PURPOSE, [task.public_id, request.principal.context_id], seconds=STATE_SECONDS)


def check_state(hub: Hub, request: Request, public_id: str) -> None:
    """Raises -32602 with HTTP 400 for a value that this server did not give this caller for this task."""
    found = request.params.get("requestState")
    if found is None:
        return
    try:
        held = hub.signer.decrypt(_PURPOSE, found) if isinstance(found, str) else None
    except InvalidToken as error:
        raise WireError(INVALID_PARAMS, f"Invalid requestState: {error}", status=400) from None
    if held != [public_id, request.principal.context_id]:
        raise WireError(INVALID_PARAMS, "Invalid requestState: it belongs to another task", status=400)
