"""Plain calls that a web process runs in place, on a whole hub before a server over HTTP."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, ToolAnnotations

from tests.support.client import Client, accept
from tests.support.hub import RunningHub, wait_until
from tests.upstream.kit import HttpServer

pytestmark = pytest.mark.processes

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WORKERS = "SELECT name FROM worker WHERE in_place = %s AND stopped_at IS NULL ORDER BY heartbeat_at DESC LIMIT 1"


class Shop(HttpServer):
    """Its tools `hold` and `hold_again` run until `opened`; `runs` counts what was called."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.runs: Counter[str] = Counter()

    def _tools(self) -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("shop", version="1", log_level="CRITICAL")

        async def held(name: str) -> str:
            self.runs[name] += 1
            while not self.opened.is_set():  # noqa: ASYNC110 - it is set in another thread
                await asyncio.sleep(0.02)
            return "held"

        @server.tool(structured_output=False)
        def echo(text: str) -> str:
            self.runs["echo"] += 1
            return text

        @server.tool()
        def add(left: int, right: int) -> int:
            return left + right

        @server.tool(structured_output=False)
        def fail() -> str:
            raise ValueError("it fails")

        @server.tool(structured_output=False)
        def large() -> str:
            return "x" * 300_000

        @server.tool(structured_output=False)
        def huge() -> str:
            return "x" * 9_000_000

        @server.tool(structured_output=False)
        async def hold() -> str:
            return await held("hold")

        @server.tool(structured_output=False, annotations=ToolAnnotations(idempotent_hint=True))
        async def hold_again(number: int = 0) -> str:
            return await held("hold_again")

        @server.tool(structured_output=False)
        async def ask(ctx: Context[Any, Any]) -> str | InputRequiredResult:
            answer = (ctx.input_responses or {}).get("name")
            if isinstance(answer, ElicitResult) and answer.content:
                return f"Hello {answer.content['name']}"
            form = ElicitRequest(params=ElicitRequestFormParams(message="Your name?", requested_schema=FORM))
            return InputRequiredResult(input_requests={"name": form})

        return server


class Mall:
    """A hub before a shop."""

    def __init__(self, shop: Shop, hub: RunningHub) -> None:
        self.shop, self.hub = shop, hub

    def client(self, name: str = "agent-a") -> Client:
        return Client(self.hub.base, self.hub.tokens[name])

    def web(self) -> str:
        return self._worker(in_place=True)

    def worker(self) -> str:
        return self._worker(in_place=False)

    def _worker(self, *, in_place: bool) -> str:
        found = wait_until(lambda: self.hub.sql(WORKERS, [in_place]), "a heartbeat")
        return str(found[0][0])

    def ran_by(self, tool: str) -> str:
        """Who ran the newest call of the tool."""
        rows = self.hub.sql(
            "SELECT a.worker FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.tool_name = %s"
            " ORDER BY a.id DESC LIMIT 1",
            [tool],
        )
        return str(rows[0][0])

    def warm(self, tool: str = "echo", **arguments: Any) -> None:
        """Call the tool until the web process runs it."""

        def runs_here() -> bool:
            with self.client() as client:
                assert client.tool(tool, arguments or {"text": "warm"}).status == 200
            return self.ran_by(tool) == self.web()

        wait_until(runs_here, "a call in place", 30.0)

    def held(self, tool: str) -> Any:
        """The newest call of the tool."""
        return self.hub.sql(
            "SELECT state, worker, lease_epoch FROM task WHERE tool_name = %s ORDER BY id DESC LIMIT 1", [tool]
        )[0]


@pytest.fixture
def mall(request: pytest.FixtureRequest) -> Iterator[Mall]:
    environment: dict[str, str] = {"TASKHUB_LEASE_SECONDS": "3", **getattr(request, "param", {})}
    with Shop() as shop:
        running = RunningHub(servers=(shop.target.target,), **environment)
        try:
            yield Mall(shop, running)
        finally:
            shop.opened.set()
            running.stop()


def test_a_plain_call_is_run_by_the_web_process_that_received_it(mall: Mall) -> None:
    mall.warm()
    with mall.client() as client:
        assert client.tool("echo", {"text": "hello"}).text == "hello"
        assert mall.held("echo") == ("finished", mall.web(), 1)
        assert client.tool("add", {"left": 1, "right": 2}).result["structuredContent"] == {"result": 3}
        assert client.tool("fail").result["isError"] is True
        assert mall.ran_by("fail") == mall.web()
        task = mall.hub.sql("SELECT id FROM task WHERE tool_name = 'echo' ORDER BY id DESC LIMIT 1")[0][0]
        of_task = "SELECT action, after ->> 'state', actor FROM event WHERE task_id = %s ORDER BY id"
        events = mall.hub.sql(of_task, [task])
        assert events == [("task.created", "working", "agent-a"), ("task.finished", "finished", mall.web())]
        # A result that is large is given whole; then workers run the tool.
        assert len(client.tool("large").text) == 300_000
        assert mall.ran_by("large") == mall.web()
        assert len(client.tool("large").text) == 300_000
        assert mall.ran_by("large") == mall.worker()
        # So it is with one that was too large to be kept.
        for who in (mall.web(), mall.worker()):
            assert "was not kept" in client.tool("huge").text
            assert mall.ran_by("huge") == who


def test_what_a_call_asks_is_asked_and_a_worker_goes_on_with_the_answer(mall: Mall) -> None:
    mall.warm()
    with mall.client() as client:
        asked = client.tool("ask", caps={"elicitation": {"form": {}}}).result
        assert mall.ran_by("ask") == mall.web()
        assert list(asked["inputRequests"]) == ["name"]
        answer = {"inputResponses": {"name": accept(name="Ada")}, "requestState": asked["requestState"]}
        assert client.tool("ask", caps={"elicitation": {"form": {}}}, params=answer).text == "Hello Ada"
        assert mall.ran_by("ask") == mall.worker()


def test_a_server_that_was_disabled_is_called_in_place_again(mall: Mall) -> None:
    mall.warm()
    name = mall.hub.sql("SELECT name FROM server")[0][0]

    def listed() -> bool:
        with mall.client() as client:
            return any(tool["name"] == "echo" for tool in client.call("tools/list", {}).result["tools"])

    mall.hub.manage("server", "disable", name, "--reason", "paused")
    wait_until(lambda: not listed(), "its tools to go")
    mall.hub.manage("server", "enable", name)
    wait_until(listed, "its tools to come back")
    mall.warm()


def test_a_long_call_holds_up_nobody_and_workers_run_the_next(mall: Mall) -> None:
    mall.warm()
    with ThreadPoolExecutor(2) as threads, mall.client() as client, mall.client("agent-b") as other:
        calling = threads.submit(client.tool, "hold")
        wait_until(lambda: mall.shop.runs["hold"] == 1, "the call")
        assert mall.held("hold") == ("working", mall.web(), 1)
        for _ in range(5):
            assert other.tool("echo", {"text": "meanwhile"}).text == "meanwhile"
        # Its lease of 3 s is renewed each second, so that the call is a long one after the second time.
        lease = "SELECT lease_until FROM task WHERE tool_name = 'hold'"
        for _ in range(2):
            before = mall.hub.sql(lease)[0][0]
            wait_until(lambda before=before: mall.hub.sql(lease)[0][0] > before, "a renewed lease")
        next_call = threads.submit(other.tool, "hold")
        wait_until(lambda: mall.shop.runs["hold"] == 2, "the next call, while the first one runs")
        assert mall.ran_by("hold") == mall.worker()
        mall.shop.opened.set()
        assert [one.result(15).text for one in (calling, next_call)] == ["held", "held"]
        assert client.tool("hold").text == "held"
        assert mall.ran_by("hold") == mall.worker()


def test_a_cancelled_call_stops(mall: Mall) -> None:
    mall.warm()
    with ThreadPoolExecutor(1) as threads, mall.client() as client:
        calling = threads.submit(client.tool, "hold")
        wait_until(lambda: mall.shop.runs["hold"] == 1, "the call")
        public_id = mall.hub.sql("SELECT public_id FROM task WHERE tool_name = 'hold'")[0][0]
        assert "isError" not in client.tool("taskhub_cancel_task", {"task_id": public_id}).result
        assert calling.result(15).result["isError"] is True
        assert mall.held("hold")[:2] == ("cancelled", mall.web())


@pytest.mark.parametrize("mall", [{"TASKHUB_WEB_SLOTS": "8"}], indirect=True, ids=["8-slots"])
def test_one_client_gets_half_of_the_places_and_the_rest_goes_through_the_queue(mall: Mall) -> None:
    def held(number: int) -> str:
        with mall.client() as client:
            return client.tool("hold_again", {"number": number}).text

    mall.warm()  # it has 8 slots, of which one client, and one server, gets 4
    with ThreadPoolExecutor(12) as threads, mall.client() as client:
        calls = [threads.submit(held, number) for number in range(10)]
        in_place = "SELECT count(*) FROM task WHERE tool_name = 'hold_again' AND state = 'working' AND worker = %s"
        wait_until(lambda: mall.hub.sql("SELECT count(*) FROM task WHERE tool_name = 'hold_again'")[0][0] == 10, "all")
        wait_until(lambda: mall.shop.runs["hold_again"] == 10, "all to run")
        assert 1 <= mall.hub.sql(in_place, [mall.web()])[0][0] <= 4
        mall.shop.opened.set()
        assert [call.result(20) for call in calls] == ["held"] * 10
        assert client.tool("echo", {"text": "after"}).text == "after"


def test_a_call_for_which_no_connection_is_free_goes_through_the_queue(mall: Mall) -> None:
    def held(number: int) -> str:
        with mall.client() as client:
            return client.tool("hold_again", {"number": number}).text

    [(name,)] = mall.hub.sql("SELECT name FROM server")
    mall.hub.manage("server", "edit", name, "--calls", "20")  # though a server gets 32 of the 64 slots
    mall.warm()
    with ThreadPoolExecutor(26) as threads:
        calls = [threads.submit(held, number) for number in range(26)]
        made = "SELECT count(*) FROM task WHERE tool_name = 'hold_again'"
        wait_until(lambda: mall.hub.sql(made)[0][0] == 26, "all", 30.0)
        attempts = (
            "SELECT a.worker, a.outcome, count(*) FROM attempt a JOIN task t ON t.id = a.task_id"
            " WHERE t.tool_name = 'hold_again' GROUP BY 1, 2"
        )

        def ran() -> dict[tuple[str, str], int]:
            return {(worker, outcome): count for worker, outcome, count in mall.hub.sql(attempts)}

        # On a slow machine the tool is a long one before all are made: then the worker has more of them than its 20.
        here = ran()[mall.web(), ""]
        wait_until(lambda: mall.shop.runs["hold_again"] == here + min(26 - here, 20), "all to run", 30.0)
        assert ran() == {(mall.web(), ""): here, (mall.worker(), ""): min(26 - here, 20)}  # none was given back
        assert 1 <= here <= 20
        mall.shop.opened.set()
        assert [call.result(20) for call in calls] == ["held"] * 26


@pytest.mark.parametrize("mall", [{"TASKHUB_WEB_SLOTS": "0"}], indirect=True, ids=["no-slots"])
def test_without_slots_every_call_goes_through_the_queue(mall: Mall) -> None:
    with mall.client() as client:
        for _ in range(5):
            assert client.tool("echo", {"text": "hello"}).text == "hello"
    assert mall.hub.sql("SELECT DISTINCT worker FROM attempt") == [(mall.worker(),)]
    assert mall.hub.sql("SELECT count(*) FROM worker WHERE in_place") == [(0,)]


@pytest.mark.parametrize(("tool", "state"), [("hold", "input_required"), ("hold_again", "finished")])
def test_a_call_whose_web_process_is_killed_is_not_lost(mall: Mall, tool: str, state: str) -> None:
    mall.warm()
    killed = mall.web()
    with ThreadPoolExecutor(1) as threads, mall.client() as client:
        calling = threads.submit(client.tool, tool)
        wait_until(lambda: mall.shop.runs[tool] == 1, "the call")
        mall.hub.part("web").send_signal(signal.SIGKILL)
        with pytest.raises(httpx2.HTTPError):
            calling.result(15)
    if tool == "hold_again":
        wait_until(lambda: mall.shop.runs[tool] == 2, "the second run", 30.0)
        mall.shop.opened.set()
    wait_until(lambda: mall.held(tool)[0] == state, "its end, or a question", 30.0)
    attempts = (
        "SELECT a.worker, a.outcome FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.tool_name = %s ORDER BY a.id"
    )
    assert mall.hub.sql(attempts, [tool])[0] == (killed, "lost")
    # The web process that was started in its place runs calls again.
    wait_until(lambda: mall.web() != killed, "the next process", 30.0)


def test_a_call_goes_back_to_the_queue_when_its_web_process_is_stopped(mall: Mall) -> None:
    mall.warm()
    stopped = mall.web()
    with ThreadPoolExecutor(1) as threads, mall.client() as client:
        calling = threads.submit(client.tool, "hold_again")
        wait_until(lambda: mall.shop.runs["hold_again"] == 1, "the call")
        mall.hub.part("web").send_signal(signal.SIGTERM)
        wait_until(lambda: mall.shop.runs["hold_again"] == 2, "the run by a worker", 30.0)
        assert mall.ran_by("hold_again") == mall.worker()
        mall.shop.opened.set()
        wait_until(lambda: mall.held("hold_again")[0] == "finished", "its end")
        calling.exception(15)  # its caller was told, or its connection was closed
    said = "SELECT count(*) FROM worker WHERE name = %s AND stopped_at IS NOT NULL"
    wait_until(lambda: mall.hub.sql(said, [stopped]) == [(1,)], "its goodbye")


def test_a_server_that_the_web_process_cannot_reach_is_left_to_workers() -> None:
    shop = Shop()
    with shop:
        running = RunningHub(servers=(shop.target.target,), TASKHUB_LEASE_SECONDS="3")
        mall = Mall(shop, running)
        mall.warm()
    try:
        with mall.client() as client:
            assert "cannot be reached" in client.tool("echo", {"text": "gone"}).error["message"]
            newest = (
                "SELECT a.worker, a.outcome FROM attempt a WHERE a.task_id = (SELECT max(id) FROM task) ORDER BY a.id"
            )
            assert mall.hub.sql(newest) == [(mall.web(), "released"), (mall.worker(), "faulted")]
            with shop:
                assert client.tool("echo", {"text": "back"}).text == "back"
                assert mall.ran_by("echo") == mall.worker()
    finally:
        running.stop()
