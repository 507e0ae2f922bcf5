"""A client of SEP-1686 as it was written (T1686-*), knowing nothing of what became of it.

It makes its own task ids, reads `notifications/tasks/created` before anything else, and races the
ordinary response against polling.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.support.client import Answer
from tests.support.hub import wait_until
from tests.support.session import Events, SessionClient

TASK: Final = "modelcontextprotocol.io/task"
RELATED: Final = "modelcontextprotocol.io/related-task"
STATUSES: Final = ("submitted", "working", "input_required", "completed", "failed", "cancelled", "unknown")


class Historical:
    """Drives a session in the words of the proposal."""

    def __init__(self, session: SessionClient) -> None:
        self.session = session
        self._ids = itertools.count(1)

    @contextlib.contextmanager
    def call(
        self,
        task_id: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        id: str | int | None = None,
        meta: Mapping[str, Any] | None = None,
        **task: Any,
    ) -> Iterator[Events]:
        """`tools/call` as a task; the first message is checked to be that it was created."""
        tied = {**(meta or {}), TASK: {"taskId": task_id, **task}}
        params = {"name": tool, "arguments": dict(arguments or {}), "_meta": tied}
        with self.session.open("tools/call", params, id) as events:
            created = events.next()
            assert created == {
                "jsonrpc": "2.0",
                "method": "notifications/tasks/created",
                "params": {"_meta": related(task_id)},
            }
            yield events

    def start(self, task_id: str, tool: str, arguments: Mapping[str, Any] | None = None, **task: Any) -> None:
        """The same, and the connection is dropped at once: that cancels nothing."""
        with self.call(task_id, tool, arguments, **task):
            pass

    def get(self, task_id: str) -> dict[str, Any]:
        """`tasks/get`, checked against the proposal."""
        found = self.session.call("tasks/get", {"taskId": task_id, "_meta": related(task_id)}).result
        check(found, task_id)
        assert found["_meta"] == related(task_id)
        return found

    def result(self, task_id: str) -> Answer:
        """`tasks/result`."""
        return self.session.call("tasks/result", {"taskId": task_id, "_meta": related(task_id)})

    def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """The task as soon as it has one of the statuses."""

        def look() -> dict[str, Any] | None:
            found = self.get(task_id)
            return found if found["status"] in statuses else None

        return wait_until(look, f"{task_id} to be {' or '.join(statuses)}")

    def list(self) -> list[dict[str, Any]]:
        """`tasks/list`, all pages."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            page = self.session.call("tasks/list", params).result
            assert set(page) <= {"tasks", "nextCursor", "_meta"}
            for task in page["tasks"]:
                check(task, task["taskId"])
            found += page["tasks"]
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}


def related(task_id: str) -> dict[str, Any]:
    """What everything about a task carries."""
    return {RELATED: {"taskId": task_id}}


def check(task: Mapping[str, Any], task_id: str) -> None:
    """A task as the proposal has it, and nothing of what came later."""
    assert set(task) <= {"taskId", "status", "keepAlive", "pollFrequency", "error", "_meta"}, task
    assert {"taskId", "status", "keepAlive"} <= set(task)
    assert task["taskId"] == task_id
    assert task["status"] in STATUSES
    assert task["keepAlive"] is None or task["keepAlive"] >= 0
    assert ("error" in task) <= (task["status"] == "failed")
    assert isinstance(task.get("error", ""), str)
