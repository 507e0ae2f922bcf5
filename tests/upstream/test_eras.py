"""A server is spoken to in the newest era in which it answers, whatever it does with what it does not know."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from taskhub.core.errors import Unavailable
from taskhub.core.states import QuestionKind
from taskhub.core.versions import OF_CALLER, Era, Proposal, Version
from taskhub.domain.relays.outcomes import GET_PROMPT, Answered, RelayClaim
from taskhub.upstream import connection as connections
from taskhub.upstream.catalogue import take_snapshot
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.eras import Eras
from taskhub.upstream.outcomes import Asked, Faulted
from taskhub.upstream.pool import ABLE, Pool
from taskhub.upstream.relay import run_relay
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.dual import dual
from tests.upstream.kit import call, text
from tests.upstream.old_http import OldHttpServer
from tests.upstream.old_sse import OldSseServer, serving

DUAL = Target("python", "tests.upstream.dual:dual", pinned=OF_CALLER)


class DualServer(kit.HttpServer):
    """The server of both eras over HTTP."""

    def _tools(self) -> Any:
        return dual


def old(mode: str, **fields: Any) -> Target:
    return Target("stdio", f"{kit.OLD.target} {mode}", **fields)


async def begun(target: Target, eras: Eras | None = None, profile: Profile = ABLE) -> tuple[Era | None, list[Era], str]:
    """How a connection was made, how not before, and the version that was agreed on."""
    connection = Connection(target, profile, eras)
    try:
        await connection.start()
        assert connection.client is not None
        await take_snapshot(connection)
        return connection.era, list(connection.tried), connection.client.protocol_version
    finally:
        await connection.stop()


@pytest.mark.parametrize("mode", ["", "strict", "closing", "deaf", "spoilt"])
async def test_a_command_that_only_knows_initialize(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PROBE_SECONDS", 1.0)
    eras = Eras()
    target = old(mode, connect_seconds=2)
    assert await begun(target, eras) == (Era.SESSIONS, [Era.STATELESS], "2025-06-18"), "in a process of its own"
    assert await begun(target, eras) == (Era.SESSIONS, [], "2025-06-18"), "what worked is tried first"
    assert kit.children() == []


class Early(OldHttpServer):
    """What it says to a message before `initialize` is a test's."""

    def __init__(self, status: int, shape: Any) -> None:
        super().__init__()
        self.unknown = (status, shape)


@pytest.mark.parametrize(
    ("status", "shape"),
    [(400, None), (404, None), (405, None), (400, {"id": "server-error"}), (404, {"id": None}), (200, {"id": 1})],
)
async def test_an_http_server_that_only_knows_initialize(status: int, shape: Any) -> None:
    eras = Eras()
    with Early(status, shape) as server:
        assert await begun(server.target, eras) == (Era.SESSIONS, [Era.STATELESS], "2025-06-18")
        count = len(server.sessions)
        assert await begun(server.target, eras) == (Era.SESSIONS, [], "2025-06-18")
        assert len(server.sessions) == count + 1


@contextmanager
def hanging_up(calm: int) -> Iterator[Target]:
    """An HTTP server that closes the connection over each message; over the first `calm` without reading."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append("POST")
            self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Target("http", f"http://127.0.0.1:{server.server_port}/mcp")
        assert len(seen) == calm
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_an_http_server_that_hangs_up_is_asked_in_the_other_era_too() -> None:
    with hanging_up(2) as target:
        connection = Connection(target, ABLE)
        with pytest.raises(Unavailable):
            await connection.start()
        assert list(connection.tried) == [Era.STATELESS, Era.SESSIONS]
        await connection.stop()


async def test_an_address_of_http_with_sse_is_found_out() -> None:
    eras = Eras()
    with serving(OldSseServer()) as server:
        target = Target("http", server.url)
        assert await begun(target, eras) == (Era.SSE, [Era.STATELESS, Era.SESSIONS], "2024-11-05")
        assert await begun(target, eras) == (Era.SSE, [], "2024-11-05")
        assert await begun(server.target) == (Era.SSE, [], "2024-11-05"), "its address says so"


async def test_what_is_remembered_and_fails_is_forgotten() -> None:
    eras = Eras(Era.SSE)
    with OldHttpServer() as server:
        assert await begun(server.target, eras) == (Era.SESSIONS, [Era.SSE, Era.STATELESS], "2025-06-18")
    with pytest.raises(Unavailable):
        await begun(server.target, eras)
    assert eras.last is Era.SESSIONS, "an outage says nothing of what a server speaks"


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_some_refusals_say_nothing_of_the_era(status: int) -> None:
    with kit.HttpServer() as server:
        server.refuses = (status, "")
        connection = Connection(server.target, ABLE, Eras(Era.STATELESS))
        with pytest.raises(Unavailable, match=f"HTTP {status}"):
            await connection.start()
        await connection.stop()
        assert (connection.tried, connection.eras.last) == ({}, Era.STATELESS)
        assert len(server.requests) == 1


async def test_a_command_that_ends_at_once_is_told_so() -> None:
    connection = Connection(old("exit"), ABLE)
    with pytest.raises(Unavailable, match="Connection closed"):
        await connection.start()
    assert list(connection.tried) == [Era.STATELESS, Era.SESSIONS]


async def test_a_server_can_be_pinned_to_a_version() -> None:
    with DualServer() as server:
        for pinned in Version:
            era = Era.STATELESS if pinned is Version.MCP_2026_07_28 else Era.SESSIONS
            target = Target("http", server.target.target, pinned=pinned)
            assert await begun(target) == (era, [], pinned)
            assert await begun(target, Eras(Era.SSE)) == (era, [], pinned), "whatever is remembered"
    with OldHttpServer() as server:
        target = Target("http", server.target.target, pinned=Version.MCP_2026_07_28)
        with pytest.raises(Unavailable, match=r"\(it is pinned to 2026-07-28\)$"):
            await begun(target)


async def word(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    assert (kind, params["message"]) == (QuestionKind.ELICITATION, "Which word?")
    return {"action": "accept", "content": {"word": "plum"}}


async def spoken(pool: Pool, revision: str) -> str:
    return text(await call(pool, "era", revision=revision))


@pytest.mark.parametrize("over_http", [False, True], ids=["in process", "over http"])
async def test_a_server_of_both_eras_is_spoken_to_in_that_of_the_caller(over_http: bool) -> None:
    with DualServer() as server:
        async with kit.pool_of(replace(server.target, pinned=OF_CALLER) if over_http else DUAL) as pool:
            for _ in range(2):
                for revision in (Version.MCP_2025_06_18, Version.MCP_2025_11_25, Proposal.SEP_1686):
                    assert await spoken(pool, revision) == "2025-11-25"
                    assert text(await call(pool, "ask", ask=word, revision=revision)) == "plum"
                for revision in (Version.MCP_2026_07_28, Proposal.SEP_2557, ""):
                    assert await spoken(pool, revision) == "2026-07-28"
            assert pool.eras.last is Era.STATELESS
            if over_http:
                assert pool.posts_for(pool.fitted(Profile.of({}, revision=Version.MCP_2026_07_28)), "era")
            asked = await call(pool, "ask", revision=Version.MCP_2026_07_28)
            assert isinstance(asked, Faulted) or asked.result["isError"], "as at the server itself"


async def test_by_default_it_is_spoken_to_in_the_newest_whoever_calls() -> None:
    async with kit.pool_of(replace(DUAL, pinned="")) as pool:
        for revision in (Version.MCP_2025_11_25, Version.MCP_2026_07_28):
            assert await spoken(pool, revision) == "2026-07-28"
            assert isinstance(await call(pool, "interim", revision=revision), Asked)


async def test_a_command_of_both_eras_speaks_as_the_client_that_it_was_started_for() -> None:
    async with kit.pool_of(Target("stdio", f"{sys.executable} -m tests.upstream.dual", pinned=OF_CALLER)) as pool:
        async with pool.look(ABLE) as listed:
            assert listed.modern, "nobody has called yet"
        assert await spoken(pool, Version.MCP_2025_11_25) == "2025-11-25"
        assert text(await call(pool, "ask", ask=word, revision=Version.MCP_2025_11_25)) == "plum"
        assert text(await call(pool, "era", revision=Version.MCP_2026_07_28, context_id=2)) == "2026-07-28"


async def test_a_shared_command_of_both_eras_has_a_process_for_each() -> None:
    command = Target("stdio", f"{sys.executable} -m tests.upstream.dual", pinned=OF_CALLER)
    async with kit.pool_of(command, shared=True) as pool:
        for revision, client in ((Version.MCP_2025_11_25, 1), (Version.MCP_2026_07_28, 2), (Version.MCP_2025_11_25, 3)):
            assert text(await call(pool, "era", revision=revision, context_id=client)) == revision
        assert text(await call(pool, "ask", ask=word, revision=Version.MCP_2025_11_25)) == "plum"
        assert isinstance(await call(pool, "interim", revision=Version.MCP_2025_11_25), Asked)
        assert len(kit.children()) == 2


async def test_a_tool_that_asks_as_of_the_new_era_is_called_in_it() -> None:
    caller = {"revision": Version.MCP_2025_11_25}
    async with kit.pool_of(DUAL) as pool:
        assert await spoken(pool, Version.MCP_2026_07_28) == "2026-07-28"
        assert isinstance(await call(pool, "interim", **caller), Asked)
        assert pool.interim == {"interim"}
        answers = {"word": {"action": "accept", "content": {"word": "plum"}}}
        assert text(await call(pool, "interim", answers=answers, **caller)) == "plum"
        assert text(await call(pool, "ask", ask=word, **caller)) == "plum", "other tools are called as before"


async def test_a_server_of_one_era_serves_all_callers_alike() -> None:
    with OldHttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            for revision in (Version.MCP_2026_07_28, Version.MCP_2025_11_25):
                assert text(await call(pool, "echo", {"text": "a"}, revision=revision)) == "a"
            assert len(server.sessions) == 2, "the one that showed that it has sessions, and that of the client"
            assert pool.fitted(Profile.of({}, revision=Version.MCP_2025_11_25)) == pool.fitted(
                Profile.of({}, revision=Version.MCP_2026_07_28)
            )


async def test_a_server_of_the_new_era_alone_is_asked_once_for_the_old_one() -> None:
    eras = Eras()

    class NewServer(kit.HttpServer):
        def _app(self) -> Any:
            inner = super()._app()

            async def app(scope: Any, receive: Any, send: Any) -> None:
                if scope["type"] == "http" and b"mcp-method" not in dict(scope["headers"]):
                    await send({"type": "http.response.start", "status": 400, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
                await inner(scope, receive, send)

            return app

    with NewServer() as server:
        sessions, target = Profile(sessions=True), replace(server.target, pinned=OF_CALLER)
        assert (await begun(target, eras, sessions))[:2] == (Era.STATELESS, [Era.SESSIONS])
        assert (await begun(target, eras, sessions))[:2] == (Era.STATELESS, [])
        async with kit.pool_of(target) as pool:
            for _ in range(2):
                assert text(await call(pool, "echo", {"text": "a"}, revision=Version.MCP_2025_11_25)) == "a"
            assert pool.posts_for(pool.fitted(Profile.of({}, revision=Version.MCP_2025_11_25)), "echo"), (
                "as for any caller"
            )


async def test_a_prompt_is_asked_for_in_the_era_of_its_caller() -> None:
    async def prompted(pool: Pool, revision: str, **more: Any) -> str:
        params = {"name": "spoken", "arguments": {}, "revision": revision, **more}
        found = await run_relay(pool, RelayClaim(1, 1, "dual", GET_PROMPT, params, {}, 30.0, 1))
        assert isinstance(found, Answered), found
        return str(found.result["messages"][0]["content"]["text"])

    with DualServer() as server:
        async with kit.pool_of(replace(server.target, pinned=OF_CALLER)) as pool:
            for _ in range(2):
                assert await prompted(pool, Version.MCP_2025_11_25) == "2025-11-25"
                assert await prompted(pool, Version.MCP_2026_07_28) == "2026-07-28"
                assert await prompted(pool, Version.MCP_2025_11_25, responses={}) == "2026-07-28"
        async with kit.pool_of(server.target) as pool:
            assert await prompted(pool, Version.MCP_2025_11_25) == "2026-07-28", "the newest, where nothing is set"
        async with kit.pool_of(replace(server.target, pinned=Version.MCP_2025_06_18)) as pool:
            assert await prompted(pool, Version.MCP_2026_07_28) == "2025-06-18"
