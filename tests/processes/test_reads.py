"""Whoever is given what came of a task is on record, on every wire, also where the web process ends right after."""

from __future__ import annotations

import pytest

from tests.support import sep_1686_client, sep_2557_client
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.session import SessionClient
from tests.support.web import web

pytestmark = pytest.mark.processes


def reads(hub: RunningHub, client: str) -> list[int]:
    """How often each task of the client was read, oldest task first; 0 where that is not on record."""
    found = hub.sql(
        "SELECT coalesce(r.count, 0) FROM task t JOIN auth_context c ON c.id = t.context_id"
        " LEFT JOIN result_read r ON r.task_id = t.id AND r.context_id = c.id AND r.first_at <= r.last_at"
        " AND r.first_at >= t.ended_at - interval '1 s' WHERE c.name = %s ORDER BY t.id",
        (client,),
    )
    return [count for (count,) in found]


def ended(hub: RunningHub, public_id: str) -> None:
    wait_until(
        lambda: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND ended_at IS NOT NULL", (public_id,)), "its end"
    )


def test_each_read_of_a_result_is_counted_and_nothing_else(hub: RunningHub) -> None:
    with web(hub) as running:
        with Client(running.base, hub.token("reads 2026")) as modern:
            modern.tool("greet", {"name": "a"})
            assert "error" in modern.tool("error_tool", {"code": -32000}).messages[-1]
            told = modern.create("lengthy", {"seconds": 0.1})
            listen = {"notifications": {"taskIds": [told]}}
            with modern.stream("subscriptions/listen", listen, caps=TASKS) as frames:
                while frames.next().get("params", {}).get("status") != "completed":
                    pass
            assert modern.get(told).result["status"] == "completed"
            unread = modern.create("lengthy", {"seconds": 0.1})
            ended(hub, unread)
            cancelled = modern.create("lengthy", {"seconds": 60})
            modern.cancel(cancelled)
            modern.until(cancelled, "cancelled")
            with modern.stream("tools/call", {"name": "lengthy", "arguments": {}}, meta={"progressToken": 1}) as frames:
                frames.rest()
        wait_until(lambda: reads(hub, "reads 2026") == [1, 1, 2, 0, 0, 1], "what is written every few seconds")

        with SessionClient(running.base, hub.token("reads 2025")) as session:
            session.tool("greet", {"name": "a"})
            session.tool("hold", {"seconds": 0.3})  # a stream
            waited = session.create("lengthy", {"seconds": 0.3})
            session.call("tasks/result", {"taskId": waited})
            session.call("tasks/result", {"taskId": waited})
            unread = session.create("lengthy", {"seconds": 0.1})
            session.until(unread, "completed")
        for version in ("2025-11-25", "2025-06-18"):
            with SessionClient(running.base, hub.token(f"reads 1686 {version}"), version=version) as session:
                old = sep_1686_client.Historical(session)
                for name in ("mine", "unread"):
                    old.start(name, "lengthy", {"seconds": 0.5})
                    old.until(name, "completed")
                old.result("mine")
        with sep_2557_client.Historical(running.base, hub.token("reads 2557")) as client:
            client.until(client.create("lengthy", {"seconds": 0.1})["taskId"], "completed")
    assert reads(hub, "reads 2025") == [1, 1, 2, 0]
    assert reads(hub, "reads 1686 2025-11-25") == [1, 0]
    assert reads(hub, "reads 1686 2025-06-18") == [1, 0]
    assert reads(hub, "reads 2557") == [1]
