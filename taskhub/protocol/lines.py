"""Notifications for a caller that waits: the tool's progress and log lines, and who has to answer before the call goes
on. They have the same shape in all revisions."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from taskhub.core.records import State, StoredLine, TaskRecord
from taskhub.domain.tasks.reads import PAGE, lines_after
from taskhub.protocol.envelope import notification_message
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.wire.tasks import answerable

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

SYNTHETIC_STEP: Final = 1e-9
"""By how much `progress` grows in a second in notifications that the hub itself makes. The number must increase
(B26-80), also when another process resumes the stream, and after a day must still be small for a tool that counts from
0 to 1."""


def progress_token(meta: dict[str, Any]) -> str | int | None:
    """The token under which the caller wants progress; `None` if it wants none. Raises -32602 for anything but a string
    or an integer."""
    token = meta.get("progressToken")
    if token is not None and (isinstance(token, bool) or not isinstance(token, (str, int))):
        raise WireError(INVALID_PARAMS, "progressToken must be a string or an integer")
    return token


class Lines:
    """Makes notifications for one caller from a task's lines: each line once, progress only if it increases (B26-80).
    `token`: the caller's progress token; `None` if it wants no progress. `level`: the lowest level of the log lines
    that it gets; `None` if it wants none."""

    def __init__(
        self,
        task_id: int,
        *,
        token: str | int | None,
        level: str | None,
        meta: dict[str, Any] | None = None,
        seen: int = 0,
        furthest: float | None = None,
    ) -> None:
        self.seen = seen
        """The id of the last line that was looked at."""
        self._task_id = task_id
        self._token = token
        self._level = level
        self._meta = meta
        self._furthest = float("-inf") if furthest is None else furthest
        """The highest progress that the tool itself has reported."""
        self._sent = self._furthest
        self._waited_for = ""

    async def read(self, hub: Hub) -> list[tuple[int, bytes]]:
        """The notifications since the last call, each with the id of its line. Makes no query if the caller wants no
        notifications."""
        if self._token is None and self._level is None:
            return []
        found = page = await hub.lanes.run(lines_after, self._task_id, self.seen)
        while len(page) == PAGE:
            page = await hub.lanes.run(lines_after, self._task_id, page[-1].id)
            found = found + page
        shown = []
        for line in found:
            self.seen = line.id
            message = self._progress(line) if line.level == "progress" else self._log(line)
            if message is not None:
                shown.append((line.id, message))
        return shown

    def _progress(self, line: StoredLine) -> bytes | None:
        if self._token is None or line.progress is None or line.progress <= self._furthest:
            return None
        self._furthest = line.progress
        return self._numbered(self._token, line, line.progress)

    def waiting(self, task: TaskRecord) -> list[bytes]:
        """A notification of progress that says whom the call waits for, if that has changed since the last one; empty
        while no person is asked."""
        asked = task.state is State.INPUT_REQUIRED and not answerable(task)
        if self._token is None or not asked or not task.message or task.message == self._waited_for:
            return []
        self._waited_for = task.message
        now = datetime.now(UTC)
        reached = max(self._furthest, task.progress or 0.0)
        line = StoredLine(0, "progress", task.message, reached, None, now)
        return [self._numbered(self._token, line, reached + SYNTHETIC_STEP * (now - task.created_at).total_seconds())]

    def still(self, task: TaskRecord) -> list[bytes]:
        """A notification of progress that says that the call goes on, for a caller that was sent nothing for a while;
        empty once the task has ended."""
        if self._token is None or task.ended_at is not None:
            return []
        now = datetime.now(UTC)
        seconds = (now - task.created_at).total_seconds()
        says = task.message or ("running" if task.state is State.WORKING else "waiting in the queue")
        reached = max(self._furthest, task.progress or 0.0)
        line = StoredLine(0, "progress", f"{task.tool_name}: {says} ({seconds:.0f} s)", reached, None, now)
        return [self._numbered(self._token, line, reached + SYNTHETIC_STEP * seconds)]

    def _numbered(self, token: str | int, line: StoredLine, number: float) -> bytes:
        """The notification of the line, with `number` as its progress. If `number` is not above the last one that was
        sent, the next larger float is sent instead."""
        self._sent = number if number > self._sent else math.nextafter(self._sent, math.inf)
        return progress_message(token, replace(line, progress=self._sent), self._meta)

    def _log(self, line: StoredLine) -> bytes | None:
        if self._level is None or line.level not in LOG_LEVELS:
            return None
        if LOG_LEVELS.index(line.level) < LOG_LEVELS.index(self._level):
            return None
        params: dict[str, Any] = {"level": line.level, "data": line.text}
        return notification_message("notifications/message", {**params, "_meta": self._meta} if self._meta else params)


def progress_message(token: str | int, line: StoredLine, meta: dict[str, Any] | None) -> bytes:
    """`notifications/progress` for a line that has a `progress`."""
    params: dict[str, Any] = {"progressToken": token, "progress": line.progress}
    if line.total is not None:
        params["total"] = line.total
    if line.text:
        params["message"] = line.text
    return notification_message("notifications/progress", {**params, "_meta": meta} if meta else params)
