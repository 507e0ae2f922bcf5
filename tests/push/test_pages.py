"""Pages through the whole application: what a busy, slow or leaving peer may cost the others."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.db import connection

from taskhub.api import health, metrics, pages
from tests.factories import make_event, make_person, make_tenant
from tests.push.kit import BOUND, HOST, Socket, cookie_of

if TYPE_CHECKING:
    from taskhub.config.asgi import Application

pytestmark = pytest.mark.usefixtures("transactional_db")
LANES = 2


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    """As uvicorn has it, without its background tasks."""
    from taskhub.config import asgi  # reads the directory of static files, which a fixture makes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asgi.settings, "TASKHUB_PAGE_LANES", LANES)
        made = asgi.Application()
    yield made
    made.close()


class Exchange:
    """One request, as a server passes it on."""

    def __init__(self, application: Application, path: str, cookie: str = "", **headers: str) -> None:
        sent = [(b"host", HOST.encode()), *((name.encode(), value.encode()) for name, value in headers.items())]
        if cookie:
            sent.append((b"cookie", f"sessionid={cookie}".encode()))
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": sent,
            "client": ("192.0.2.1", 5000), "server": (HOST, 80), "scheme": "http",
        }  # fmt: skip
        communicator: Any = ApplicationCommunicator
        self.scope = scope
        self.wire = communicator(application, scope)
        self.headers: dict[str, str] = {}

    async def begin(self) -> Exchange:
        """Ask."""
        await self.wire.send_input({"type": "http.request", "body": b"", "more_body": False})
        return self

    async def leave(self) -> None:
        """The peer closes the connection; the server has forgotten the request when this returns."""
        await self.wire.send_input({"type": "http.disconnect"})
        await self.wire.wait(BOUND)

    async def status(self) -> int:
        """The first line of the answer, and its headers."""
        start = await self.wire.receive_output(BOUND)
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return int(start["status"])

    async def parts(self) -> AsyncIterator[bytes]:
        """The answer, as it comes."""
        while True:
            message = await self.wire.receive_output(BOUND)
            yield message["body"]
            if not message.get("more_body", False):
                return

    async def answer(self) -> tuple[int, bytes]:
        """All of it."""
        status = await self.status()
        return status, b"".join([part async for part in self.parts()])


async def get(application: Application, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    exchange = await Exchange(application, path, **headers).begin()
    status, body = await exchange.answer()
    return status, body, exchange.headers


@asynccontextmanager
async def busy(application: Application) -> AsyncIterator[threading.Event]:
    """No lane is free until the block ends, or the event is set."""
    everybody, over = threading.Barrier(LANES + 1), threading.Event()

    def hold() -> None:
        everybody.wait(BOUND)
        over.wait(60)

    holding = [asyncio.ensure_future(application.page_lanes.run(hold)) for _ in range(LANES)]
    await asyncio.to_thread(everybody.wait, BOUND)
    try:
        yield over
    finally:
        over.set()
        await asyncio.gather(*holding)


async def test_a_page_is_answered_whole(application: Application) -> None:
    status, body, headers = await get(application, "/accounts/login/")
    assert status == 200
    assert b"</html>" in body
    assert int(headers["content-length"]) == len(body)
    assert "content-security-policy" in headers


async def test_whoever_finds_no_lane_in_time_is_told_when_to_come_back(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PATIENCE_SECONDS", 0.05)
    async with busy(application):
        status, body, headers = await get(application, "/readyz")
        assert (status, json.loads(body)["error"]) == (503, "temporarily_unavailable")
        assert int(headers["retry-after"]) > 0
        status, body, headers = await get(application, "/accounts/login/", accept="text/html")
        assert status == 503
        assert b"cannot answer just now" in body
        assert int(headers["retry-after"]) > 0
    assert (await get(application, "/accounts/login/"))[0] == 200


async def test_whoever_asks_whether_it_is_ready_does_not_wait_for_long(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "HURRY_SECONDS", 0.05)
    async with busy(application):
        status, body, headers = await get(application, "/readyz")
        assert (status, json.loads(body)["status"]) == (503, "not ready")
        assert "no answer in time" in json.loads(body)["problems"][0]
        assert int(headers["retry-after"]) > 0


async def test_a_client_beyond_the_line_is_told_in_the_terms_of_its_wire(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application.hub.lanes, "most", 0)
    known = {"authorization": "Bearer nobody-knows-it", "mcp-session-id": "x"}
    status, body, headers = await get(application, "/mcp", **known)
    assert (status, json.loads(body)["error"]["code"]) == (503, 50300)
    assert int(headers["retry-after"]) > 0


async def test_the_line_is_bounded(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_WAITING", 3)
    async with busy(application) as over:
        waiting = [await Exchange(application, "/accounts/login/").begin() for _ in range(3)]
        await asyncio.sleep(0)
        assert (await get(application, "/accounts/login/"))[0] == 503
        over.set()
        assert [(await exchange.answer())[0] for exchange in waiting] == [200] * 3


async def test_a_process_whose_lanes_are_all_busy_still_says_that_it_lives(application: Application) -> None:
    async with busy(application):
        status, body, headers = await get(application, "/healthz")
        assert (status, json.loads(body)) == (200, {"status": "ok"})
        assert "no-store" in headers["cache-control"]


async def test_whoever_leaves_the_line_costs_no_lane(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    handler: Any = application.lean.rest.rest.application_mapping["http"]
    whole = handler.get_response

    def counted(request: Any) -> Any:
        begun.append(request.path)
        return whole(request)

    monkeypatch.setattr(handler, "get_response", counted)
    async with busy(application):
        exchange = await Exchange(application, "/accounts/login/").begin()
        await asyncio.sleep(0)
        await exchange.leave()
    assert (await get(application, "/accounts/logout/"))[0] != 503
    assert begun == ["/accounts/logout/"]


async def test_peers_that_do_not_read_hold_no_lane(application: Application) -> None:
    begun: list[int] = []

    def peer() -> Any:
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def ask() -> Any:
            return messages.pop() if messages else await asyncio.Future()

        return ask

    async def take(message: dict[str, Any]) -> None:
        begun.append(message["status"])
        await asyncio.Future()  # never done with the first line

    scope = Exchange(application, "/accounts/login/").scope
    slow = [asyncio.ensure_future(application(dict(scope), peer(), take)) for _ in range(LANES * 2)]
    async with asyncio.timeout(BOUND):
        while len(begun) < len(slow):  # noqa: ASYNC110 - nobody sets an event
            await asyncio.sleep(0.005)
    assert (await get(application, "/accounts/login/"))[0] == 200
    for one in slow:
        one.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_socket_that_finds_no_lane_in_time_is_told_to_come_back(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskhub.push import consumers

    monkeypatch.setattr(consumers, "PATIENCE_SECONDS", 0.05)
    async with busy(application):
        assert await Socket(application, "x" * 32).open() == consumers.LATER
        assert await Socket(application).open() == consumers.STRANGER  # without a cookie there is nothing to look up


def test_an_export_is_sent_as_it_is_read(application: Application) -> None:
    tenant = make_tenant()
    for _ in range(1_100):
        make_event(tenant)
    cookie = cookie_of(User.objects.get(pk=make_person("auditor", tenant).user_id))

    async def fetch() -> list[bytes]:
        exchange = await Exchange(application, "/audit/export?format=jsonl", cookie).begin()
        assert await exchange.status() == 200
        return [part async for part in exchange.parts()]

    parts = asyncio.run(fetch())
    assert len(parts) > 2  # not one lump
    # The export itself is on record too, after it began.
    assert len(b"".join(parts).splitlines()) == 1_100


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", 503),
        ("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'query_canceled'; END $$", 503),
        ("SELECT nonsense", 503),  # as when a migration was not run
        ("INSERT INTO tenant (slug) VALUES (NULL)", 500),
        ("SELECT 1 / 0", 500),
    ],
)
@pytest.mark.parametrize("accept", ["text/plain", "text/html"])
async def test_only_an_absent_busy_or_incomplete_database_is_worth_another_try(
    application: Application, monkeypatch: pytest.MonkeyPatch, statement: str, status: int, accept: str
) -> None:
    """Ours are the others: what breaks a constraint or divides by zero is a fault, and stays loud."""

    def failing() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        return []

    monkeypatch.setattr(metrics, "backlog", failing)
    monkeypatch.setattr(health, "ready", failing)
    for path in ("/metrics", "/readyz"):
        found, body, headers = await get(application, path, accept=accept)
        assert (found, "retry-after" in headers) == (status, status == 503), (path, body)
