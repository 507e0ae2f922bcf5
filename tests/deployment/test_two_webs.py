"""Two web processes over one database, one of them killed: sessions, streams and subscriptions belong to neither."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.session import EVERYTHING, SessionClient
from tests.support.web import Web

pytestmark = pytest.mark.processes

YES = {"action": "accept", "content": {"confirm": True}}


@pytest.fixture(scope="module")
def living(hub: RunningHub) -> Iterator[list[Web]]:
    """The web processes that tests have left alive, for the next ones."""
    found: list[Web] = []
    try:
        yield found
    finally:
        for web in found:
            web.end()


@pytest.fixture
def both(hub: RunningHub, living: list[Web]) -> tuple[Web, Web]:
    """Two web processes, either of which the test may kill."""
    living[:] = [web for web in living if web.process.poll() is None]
    fresh = [Web(hub) for _ in range(2 - len(living))]
    living += fresh
    for web in fresh:
        wait_until(web.ready, "a web process", 60)
    one, two = living
    return one, two


def _moved(session: SessionClient, web: Web) -> SessionClient:
    """The same session, through another process."""
    session.url = f"{web.base}/mcp"
    return session


def test_requests_of_a_session_go_round_robin(hub: RunningHub, both: tuple[Web, Web]) -> None:
    with SessionClient(both[0].base, hub.tokens["agent-a"], caps=EVERYTHING) as session:
        _moved(session, both[1]).call("logging/setLevel", {"level": "error"})
        task_id = ""
        for turn in range(6):
            _moved(session, both[turn % 2])
            assert session.tool("greet", {"name": str(turn)}).text == f"Hello, {turn}!"
            assert session.tool("test_tool_with_logging").notifications == [], "the level holds everywhere"
            task_id = session.create("slow_compute", {"seconds": 0.1})
            assert _moved(session, both[(turn + 1) % 2]).get(task_id).result["taskId"] == task_id
        session.until(task_id, "completed")
        assert session.delete() == 204
        for web in both:
            assert _moved(session, web).call("ping").status == 404


def test_a_question_on_one_process_is_answered_through_the_other(hub: RunningHub, both: tuple[Web, Web]) -> None:
    one, two = both
    with SessionClient(one.base, hub.tokens["agent-a"], caps=EVERYTHING) as session:
        task_id = session.create("confirm_delete", {"filename": "x"})
        with session.open("tasks/result", {"taskId": task_id}) as events:
            request = events.until("elicitation/create")
            assert _moved(session, two).respond(request, YES) == 202
            assert events.until("response")["result"]["content"][0]["text"] == "Deleted x"


def test_a_request_on_one_process_is_cancelled_through_the_other(hub: RunningHub, both: tuple[Web, Web]) -> None:
    one, two = both
    with SessionClient(one.base, hub.tokens["agent-a"]) as session:
        params = {"name": "slow_compute", "arguments": {"seconds": 60}}
        with session.open("tools/call", params, id="long") as events:
            events.event()
            _moved(session, two).notify("notifications/cancelled", {"requestId": "long"})
            assert events.rest() == []


@pytest.mark.parametrize("how", ["again", "resumed"])
def test_a_killed_process_costs_a_waiting_client_nothing(hub: RunningHub, both: tuple[Web, Web], how: str) -> None:
    one, two = both
    with SessionClient(one.base, hub.tokens["agent-a"], caps=EVERYTHING) as session:
        task_id = session.create("confirm_delete", {"filename": how})
        params = {"taskId": task_id}
        with session.open("tasks/result", params, id=9) as events:
            priming = events.event()
            assert priming is not None
            request = events.until("elicitation/create")
            one.kill()
            with pytest.raises((httpx2.TransportError, AssertionError)):
                events.next()
        _moved(session, two)
        again: Any = (
            session.open("tasks/result", params, id=10)
            if how == "again"
            else session.listen(priming.id, of=("tasks/result", params, 9))
        )
        with again as events:
            assert events.until("elicitation/create") == request
            assert session.respond(request, YES) == 202
            assert events.until("response")["result"]["content"][0]["text"] == f"Deleted {how}"


@pytest.mark.parametrize("resumed", [True, False])
def test_a_killed_process_costs_a_sessions_own_stream_no_question(
    hub: RunningHub, both: tuple[Web, Web], resumed: bool
) -> None:
    one, two = both
    with SessionClient(one.base, hub.tokens["agent-a"], caps=EVERYTHING) as session:
        with session.listen() as events:
            assert events.event() is not None
            last = events.last_id
            one.kill()
        task_id = _moved(session, two).create("confirm_delete", {"filename": "y"})
        with session.listen(last if resumed else None) as events:
            session.respond(events.until("elicitation/create"), YES)
            session.until(task_id, "completed")


def test_a_killed_process_costs_a_subscription_no_result(hub: RunningHub, both: tuple[Web, Web]) -> None:
    token = hub.tokens["agent-a"]
    one, two = both
    with Client(one.base, token) as client, Client(two.base, token) as other:
        task_id = client.create("slow_compute", {"seconds": 2}, caps=TASKS)
        wanted = {"notifications": {"taskIds": [task_id]}}
        with client.stream("subscriptions/listen", wanted, caps=TASKS) as frames:
            frames.next()
            assert frames.next()["params"]["status"] == "working"
            one.kill()
            with pytest.raises((httpx2.TransportError, AssertionError)):
                frames.next()
        with other.stream("subscriptions/listen", wanted, caps=TASKS) as frames:
            frames.next()
            while (told := frames.next()["params"])["status"] == "working":
                pass
            assert told["result"]["content"][0]["text"] == "Computed something in 2 s"


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("ends", ["before", "after"])
def test_the_same_plain_call_has_the_result_that_a_killed_process_did_not_give(
    hub: RunningHub, both: tuple[Web, Web], tmp_path: Path, version: str, ends: str
) -> None:
    """The tool `ends` before the process is killed, or after it."""
    one, two = both
    client, file = f"killed-{secrets.token_hex(4)}", tmp_path / "there"
    token = hub.token(client)
    params = {"name": "await_file", "arguments": {"path": str(file)}}

    def mine(what: str) -> list[Any]:
        sql = f"SELECT {what} FROM task t JOIN auth_context a ON a.id = t.context_id WHERE a.name = %s ORDER BY t.id"
        return [found for (found,) in hub.sql(sql, [client])]

    def end() -> None:
        file.touch()
        wait_until(lambda: mine("state") == ["finished"], "the end")

    with ExitStack() as stack:
        modern = stack.enter_context(Client(two.base, token))
        session = None if version == "2026-07-28" else stack.enter_context(SessionClient(one.base, token))
        with (
            stack.enter_context(Client(one.base, token)).stream("tools/call", params)
            if session is None
            else session.open("tools/call", params)
        ):
            wait_until(lambda: mine("state") == ["working"], "a worker")
            if ends == "before":
                one.process.send_signal(signal.SIGSTOP)
                end()
            one.kill()
        if ends == "after":
            end()
        wait_until(lambda: mine("th_web_gone(waiter)") == [True], "the end of the process's session at Postgres")

        def text() -> str:
            found = (modern if session is None else _moved(session, two)).tool("await_file", params["arguments"])
            return found.text

        assert text() == "Found there"
        assert mine("lease_epoch") == [1], "it ran once"
        assert text() == "Found there"
        assert mine("lease_epoch") == [1, 1], "the result was given, so the same call is another one"


def test_a_killed_process_costs_a_client_hosted_question_nothing(hub: RunningHub, both: tuple[Web, Web]) -> None:
    hosts = {**EVERYTHING, "tasks": {"requests": {"elicitation": {"create": {}}}}}
    stamp = "2026-01-01T00:00:00Z"
    begun = {"taskId": "C", "status": "working", "createdAt": stamp, "lastUpdatedAt": stamp, "ttl": None}
    one, two = both
    with SessionClient(one.base, hub.tokens["agent-a"], caps=hosts) as session:
        task_id = session.create("confirm_delete", {"filename": "z"})
        with session.open("tasks/result", {"taskId": task_id}) as events:
            session.respond(events.until("elicitation/create"), {"task": {**begun, "pollInterval": 200}})
            one.kill()
        _moved(session, two)
        with session.open("tasks/result", {"taskId": task_id}) as events:
            session.respond(events.until("tasks/get"), {**begun, "status": "completed"})
            session.respond(events.until("tasks/result"), YES)
            assert events.until("response")["result"]["content"][0]["text"] == "Deleted z"


def test_a_killed_process_tells_nothing_of_a_programs_patience(
    hub: RunningHub, both: tuple[Web, Web], tmp_path: Path
) -> None:
    one, two = both
    client, file = f"killed-{secrets.token_hex(4)}", tmp_path / "there"
    params = {"name": "await_file", "arguments": {"path": str(file)}}
    of_client = " WHERE context_id = (SELECT id FROM auth_context WHERE name = %s)"
    with SessionClient(one.base, hub.token(client)) as session:
        with session.open("tools/call", params):
            aged = "UPDATE stream SET opened_at = opened_at - interval '10 s' WHERE task_id IN (SELECT id FROM task"
            wait_until(lambda: hub.sql(f"{aged}{of_client}) RETURNING id", [client]), "its stream")
            one.kill()
        moved = _moved(session, two)
        with moved.open("tools/call", params):
            joined = "SELECT 1 FROM event WHERE action = 'task.joined' AND task_id IN (SELECT id FROM task"
            wait_until(lambda: hub.sql(f"{joined}{of_client})", [client]), "the same call")
            file.touch()
            wait_until(lambda: hub.sql("SELECT ended_at FROM task" + of_client, [client])[0][0], "the end")
    assert hub.sql("SELECT * FROM learned_patience" + of_client, [client]) == []
