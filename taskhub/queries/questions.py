"""Reads of single questions."""

from __future__ import annotations

from typing import Any

from taskhub.lib import jsonx
from taskhub.store import call


def response_to(task_id: int, key: str) -> dict[str, Any] | None:
    """The stored answer; `None` while the question is open. A question that was closed without one
    counts as cancelled."""
    found = call.reread("SELECT state, response FROM question WHERE task_id = %s AND key = %s", (task_id, key))
    if not found or found[0][0] in ("superseded", "expired"):
        return {"action": "cancel"}
    state, response = found[0]
    if state == "open":
        return None
    answer: dict[str, Any] = jsonx.decode(response.encode())
    return answer
