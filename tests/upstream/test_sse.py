"""HTTP with SSE, the transport of 2024-11-05: what breaks is told as over other transports, and bounds hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskhub.core.errors import Unavailable
from taskhub.upstream.connection import Connection, Profile
from taskhub.upstream.diagnosis import diagnosed
from taskhub.upstream.outcomes import Faulted
from taskhub.upstream.pool import Pool
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.old_sse import OldSseServer, serving


def error(outcome: Any) -> str:
    assert isinstance(outcome, Faulted), outcome
    return str(outcome.error["message"])


async def test_it_is_listed_and_called_with_its_token() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "hé"})) == "hé"
            assert text(await call(pool, "large")) == "x" * 3_000_000, "larger than the SDK's limit of an event"
            assert isinstance(await call(pool, "error"), Faulted)
        assert server.methods.count("GET") == 1, "an error of a tool is no reason for another connection"
        assert server.methods[:3] == ["GET", "initialize", "notifications/initialized"]
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer s3cret-of-ours"}
    assert {headers["Accept-Encoding"] for headers in server.headers} == {"identity"}


async def test_it_is_tested_step_by_step() -> None:
    with serving(OldSseServer()) as server:
        found = await asyncio.to_thread(lambda: list(diagnosed(server.target)))
        assert [step.name for step in found if step.ok] == ["Name", "TCP", "HTTP", "MCP", "Tools"]
        assert found[3].says == "2024-11-05 by HTTP with SSE, old-sse 0"


async def test_a_question_in_the_middle_of_a_call() -> None:
    async def ask(kind: Any, params: dict[str, Any]) -> dict[str, Any]:
        assert params["message"] == "Which word?"
        return {"action": "accept", "content": {"word": "plum"}}

    with serving(OldSseServer()) as server:
        server.version = "2025-06-18"
        async with kit.pool_of(server.target) as pool:
            assert '"word": "plum"' in text(await call(pool, "ask", ask=ask))


async def holding(server: OldSseServer, pool: Pool) -> asyncio.Task[Any]:
    calling = asyncio.create_task(call(pool, "hold"))
    await kit.until(lambda: "hold" in server.runs, "the call to run")
    return calling


async def test_a_stream_that_breaks_leaves_the_outcome_unknown() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            calling = await holding(server, pool)
            server.cut()
            outcome = await calling
            assert "unknown" in error(outcome)
            assert not outcome.unreached
            assert text(await call(pool, "echo", {"text": "again"})) == "again", "over a new stream"
        assert server.runs == ["hold", "echo"], "nothing is run twice"


async def test_a_stream_may_be_silent_for_long() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "a"})) == "a"
            calling = await holding(server, pool)
            fast = kit.hurry(1_000.0)
            await asyncio.sleep(900.0)
            assert not calling.done()
            server.say("0", {"id": server.asking, "result": {"content": [{"type": "text", "text": "late"}]}})
            assert text(await calling) == "late"
            fast.cancel()


async def test_an_answer_beyond_the_bounds_fails_its_call() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            assert "event" in error(await call(pool, "lavish")).lower()
            assert text(await call(pool, "echo", {"text": "on"})) == "on"


async def test_an_answer_that_is_no_message_fails_its_call() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            assert error(await call(pool, "nonsense"))


async def test_a_message_that_is_refused_fails_its_call() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            assert "HTTP 500 Internal Server Error." in error(await call(pool, "fail"))


async def test_a_forgotten_session_is_begun_anew() -> None:
    with serving(OldSseServer()) as server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "a"})) == "a"
            server.streams["gone"] = server.streams.pop("0")
            assert text(await call(pool, "echo", {"text": "b"})) == "b"
        assert server.runs == ["echo", "echo"]


async def refused(server: OldSseServer) -> str:
    with serving(server):
        connection = Connection(server.target, Profile())
        try:
            with pytest.raises(Unavailable) as found:
                await connection.start()
        finally:
            await connection.stop()
    return found.value.message


async def test_messages_go_to_no_other_server() -> None:
    server = OldSseServer()
    server.endpoint = "http://127.0.0.1:1/messages"
    assert await refused(server) == "it wants messages at another server, http://127.0.0.1:1"
    assert server.methods == ["GET"]


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, "text/plain", "HTTP 401 Unauthorized. Its token is missing"),
        (404, "text/plain", "HTTP 404 Not Found. There is no MCP server"),
        (200, "text/html", "HTTP 200 OK, text/html. This is no answer of an MCP server"),
    ],
)
async def test_what_is_no_stream_is_told(status: int, kind: str, words: str) -> None:
    server = OldSseServer()
    server.stream_status, server.stream_headers = status, {"Content-Type": kind}
    assert (await refused(server)).startswith(words)


async def test_a_compressed_stream_is_refused() -> None:
    server = OldSseServer()
    server.stream_headers |= {"Content-Encoding": "gzip"}
    assert "compressed" in await refused(server)


async def test_nobody_is_there() -> None:
    with serving(OldSseServer()) as server:
        target = server.target
    async with kit.pool_of(target) as pool:
        outcome = await call(pool, "echo", {"text": "a"})
    assert isinstance(outcome, Faulted)
    assert outcome.unreached
