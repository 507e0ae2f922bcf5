"""Notifications of a 2025-11-25 server about its tasks, between polls: that a task has changed, and the progress of a
call that runs as a task. The SDK's client drops both, because it knows only calls that are not answered yet, and such a
call was answered with its task. A lost notification only costs time, because polls find the same (T25-40)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import mcp_types as types

from taskhub.core.records import Claim, LogLine

MAX_ID: Final = 256
"""The most characters of the id of a server's task."""

MOST: Final = 1e300
"""The largest progress. A much larger integer cannot be converted to a float."""

_TOKEN: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")


def token_of(claim: Claim) -> str:
    """The progress token of a call that the server runs as a task. It names the hub's task and the attempt, because
    progress may arrive at any worker for as long as the server's task runs."""
    return f"{claim.task_id}.{claim.epoch}"


def named_by(token: str) -> tuple[int, int] | None:
    """Task and epoch in a token of `token_of`; `None` for any other token."""
    found = _TOKEN.fullmatch(token)
    return (int(found[1]), int(found[2])) if found else None


class TaskNews:
    """Passes on what the notifications of one connection say of the server's tasks and of the progress of calls."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        """`hide` takes the server's secrets out of a line."""
        self.owner: int | None = None
        """The id of the client to whose session the connection belongs; `None` if it belongs to no single client."""
        self.on_changed: Callable[[str, bool, int | None], None] = lambda task, working, owner: None
        """Called with the id of a changed task of the server, whether it is still working, and `owner`."""
        self.on_said: Callable[[str, LogLine, int | None], None] = lambda token, line, owner: None
        """Called with the progress token of a call that was answered with a task, a line of its progress, and
        `owner`."""
        self._hide = hide
        self._running: dict[str, Callable[[LogLine], None]] = {}

    @contextmanager
    def during(self, token: str, say: Callable[[LogLine], None]) -> Iterator[None]:
        """While the block runs, in which the call is not answered yet, `say` gets its progress."""
        self._running[token] = say
        try:
            yield
        finally:
            del self._running[token]

    def heard(self, message: Any) -> None:
        """Look at an incoming message."""
        if not isinstance(message, types.JSONRPCNotification):
            return
        params = message.params or {}
        if message.method == "notifications/tasks/status":
            task = params.get("taskId")
            if isinstance(task, str) and len(task) <= MAX_ID:
                self.on_changed(task, params.get("status") == "working", self.owner)
        elif message.method == "notifications/progress":
            token, line = params.get("progressToken"), self._line(params)
            if not isinstance(token, str) or line is None:
                return
            if (say := self._running.get(token)) is not None:
                say(line)
            else:
                self.on_said(token, line, self.owner)

    def _line(self, params: dict[str, Any]) -> LogLine | None:
        progress, text = _number(params.get("progress")), params.get("message")
        if progress is None:
            return None
        words = self._hide(text) if isinstance(text, str) else ""
        return LogLine("progress", words, progress=progress, total=_number(params.get("total")))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        return None
    return float(value)
