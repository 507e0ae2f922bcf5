"""A call by one request ends as it would through the SDK's client, whatever the server answers; on real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from taskhub.core.records import LogLine
from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.call import call_tool
from taskhub.upstream.connection import Profile
from taskhub.upstream.outcomes import CallOutcome, Faulted, Finished
from taskhub.upstream.pool import Pool
from tests.upstream import kit, servers
from tests.upstream.kit import call, text

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
RESULT = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def message(**members: Any) -> str:
    """A JSON-RPC response; `ID` stands for the id of the request."""
    return json.dumps({"jsonrpc": "2.0", "id": "ID", **members}).replace('"ID"', "ID")


def event(body: str) -> str:
    return f"event: message\ndata: {body}\n\n"


def error(code: int, words: str) -> str:
    return message(error={"code": code, "message": words})


class Strange(kit.HttpServer):
    """A server of 2026-07-28 whose tool `strange` answers with `answer`: a status, headers and a body."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: tuple[int, dict[str, str], str | bytes] = (200, JSON, "")
        self.calls = 0
        """How many calls of `strange` came."""
        self.once = False
        """Whether only the first call is answered so, and later ones by the tool `echo`."""

    def _app(self) -> Any:
        inner = super()._app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            called = scope["type"] == "http" and (b"mcp-name", b"strange") in scope["headers"]
            if not called:
                await inner(scope, receive, send)
                return
            body = b""
            while (part := await receive())["type"] == "http.request":
                body += part["body"]
                if not part.get("more_body"):
                    break
            self.calls += 1
            if self.once and self.calls > 1:
                await self._sent(send, 200, JSON, message(result=RESULT), body)
            else:
                await self._sent(send, *self.answer, body)

        return app

    async def _sent(self, send: Any, status: int, headers: dict[str, str], answer: str | bytes, request: bytes) -> None:
        asked = json.loads(request)
        if isinstance(answer, str):
            answer = answer.replace("TOKEN", json.dumps(asked["params"]["_meta"].get("progressToken")))
            answer = answer.replace("ID", json.dumps(asked["id"])).encode()
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": answer})


async def warm(pool: Pool, **fields: Any) -> None:
    """Make a first call, after which calls are single requests."""
    assert text(await call(pool, "echo", {"text": "first"}, **fields)) == "first"
    pool.outputs["strange"] = None
    assert pool.posts_for(Profile.of(fields.get("client_capabilities", {})), "strange")


async def each(server: Strange, said: list[list[LogLine]] | None = None) -> list[CallOutcome]:
    """The outcomes of the call: through the SDK's client, and by one request."""
    outcomes = []
    for first in (False, True):
        async with kit.pool_of(server.target) as pool:
            if first:
                await warm(pool)
            heard: list[LogLine] = []
            outcomes.append(await call(pool, "strange", said=heard))
            if said is not None:
                said.append(heard)
    return outcomes


async def both(server: Strange, said: list[list[LogLine]] | None = None) -> CallOutcome:
    """The outcome of the call, which is the same in both ways."""
    through_the_sdk, by_one_request = await each(server, said)
    assert through_the_sdk == by_one_request
    return by_one_request


@pytest.mark.parametrize(
    ("status", "headers", "body", "code", "words"),
    [
        (202, {}, "", -32600, "server answered a request with 202 Accepted"),
        (200, {"content-type": "text/html"}, "<html>", -32603, "HTTP 200 OK, text/html. This is no answer of an MCP"),
        (200, JSON, '{"hello": "world"}', -32603, "JSON that is no JSON-RPC message. This is no answer of an MCP"),
        (200, JSON, "{", -32603, "JSON that is no JSON-RPC message. This is no answer of an MCP"),
        (200, JSON, message(result=5), -32603, "JSON that is no JSON-RPC message"),
        (
            200,
            JSON,
            message(result=RESULT).replace("ID", '"another"'),
            -32603,
            "it answered a request that nobody made",
        ),
        (200, JSON, error(-7, "no").replace("ID", "null"), -7, "no"),
        (200, JSON, error(-7, "no"), -7, "no"),
        (400, JSON, error(-32602, "wrong argument"), -32602, "wrong argument"),
        (400, JSON, "{}", -32603, "HTTP 400 Bad Request"),
        (403, {}, "", -32603, "HTTP 403 Forbidden. Its token does not allow this"),
        (404, {}, "", -32603, "HTTP 404 Not Found. There is no MCP server at this address"),
        (500, {}, "", -32603, "HTTP 500 Internal Server Error. The server, or a proxy before it, fails"),
        (200, JSON, message(result={"content": 5}), -32603, "the server sent something that is no tool result"),
        (200, EVENTS, event("nonsense"), -32700, "Failed to parse SSE message"),
        (200, EVENTS, event(error(-7, "no")), -7, "no"),
    ],
)
async def test_an_answer_that_is_no_result_is_the_same_error(
    status: int, headers: dict[str, str], body: str, code: int, words: str
) -> None:
    with Strange() as server:
        server.answer = (status, headers, body)
        outcomes = await each(server)
    for outcome in outcomes:
        assert isinstance(outcome, Faulted), outcome
        assert outcome.error["code"] == code
        assert words in outcome.error["message"]
        assert not outcome.unreached


async def test_a_refused_token_was_not_reached() -> None:
    with Strange() as server:
        server.answer = (401, {"www-authenticate": "Bearer"}, "")
        outcome = await both(server)
    assert isinstance(outcome, Faulted)
    assert outcome.unreached
    assert "HTTP 401 Unauthorized, WWW-Authenticate: Bearer. Its token is missing" in outcome.problem


async def test_events_before_the_result_are_its_progress_and_its_log() -> None:
    progress = {"progressToken": "TOKEN", "progress": 2, "total": 4, "message": "half"}
    another = {**progress, "progressToken": "another", "message": "of another"}
    lines = [
        {"method": "notifications/progress", "params": progress},
        {"method": "notifications/progress", "params": another},
        {"method": "notifications/message", "params": {"level": "warning", "logger": "shop", "data": "careful"}},
        {"method": "notifications/unheard_of"},
    ]
    body = "".join(event(json.dumps({"jsonrpc": "2.0", **line})) for line in lines).replace('"TOKEN"', "TOKEN")
    with Strange() as server:
        server.answer = (200, EVENTS, f": a comment\n\n{body}{event(message(result=RESULT))}")
        said: list[list[LogLine]] = []
        outcome = await both(server, said)
    assert outcome == Finished({"content": RESULT["content"]})
    assert said[0] == said[1] == [LogLine("progress", "half", progress=2, total=4), LogLine("warning", "shop: careful")]


async def test_a_stream_that_ends_without_a_result_leaves_the_outcome_unknown() -> None:
    with Strange() as server:
        server.answer = (200, EVENTS, ": nothing\n\n")
        outcome = await both(server)
    assert isinstance(outcome, Faulted)
    assert outcome.lost


@pytest.mark.parametrize("kind", [JSON, EVENTS])
async def test_a_compressed_answer_is_not_read(kind: dict[str, str]) -> None:
    body = message(result=RESULT)
    packed = gzip.compress((body if kind is JSON else event(body)).encode())
    with Strange() as server:
        server.answer = (200, {**kind, "content-encoding": "gzip"}, packed)
        outcome = await both(server)
    assert isinstance(outcome, Faulted)
    assert "the answer is compressed (gzip)" in outcome.error["message"]


async def test_an_answer_beyond_the_bound_is_given_up() -> None:
    with Strange() as server:
        server.answer = (200, JSON, b"x" * (MAX_ANSWER + 1))
        outcome = await both(server)
    assert isinstance(outcome, Faulted)
    assert f"larger than {MAX_ANSWER} bytes" in outcome.error["message"]


@pytest.mark.parametrize(
    "answer",
    [
        (400, JSON, error(-32022, "only 2027-01-01")),
        (400, JSON, error(-32020, "a header is missing")),
        (307, {"location": "/mcp"}, ""),
    ],
    ids=["revision", "headers", "address"],
)
async def test_a_call_that_was_refused_for_its_way_is_made_through_the_sdk(answer: Any) -> None:
    with Strange() as server:
        server.answer, server.once = answer, True
        async with kit.pool_of(server.target) as pool:
            await warm(pool)
            assert text(await call(pool, "strange")) == "done"
    assert server.calls == 2


async def test_what_a_caller_can_is_declared_with_its_own_calls(workshop_address: Any) -> None:
    async with kit.pool_of(workshop_address) as pool:
        for capabilities in ({}, {"sampling": {"tools": {}}}, {"roots": {}}, {}):
            await warm_at(pool, capabilities)
            first = text(await call(pool, "declared", client_capabilities=capabilities))
            assert first == text(await call(pool, "declared", client_capabilities=capabilities))
            assert pool.posts_for(Profile.of(capabilities), "declared")


async def warm_at(pool: Pool, capabilities: dict[str, Any]) -> None:
    await call(pool, "echo", {"text": "first"}, client_capabilities=capabilities)


async def test_a_cancelled_call_is_cancelled_at_the_server(workshop_address: Any) -> None:
    async with kit.pool_of(workshop_address) as pool:
        await warm_at(pool, {})
        calling = asyncio.ensure_future(
            call_tool(pool, kit.make_claim("hold"), say=lambda line: None, ask=kit.nobody_answers)
        )
        await kit.until(servers.gates.entered.is_set, "the call")
        calling.cancel()
        await kit.until(servers.gates.cancelled.is_set, "the cancellation")
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_a_call_that_runs_when_its_server_is_left_runs_to_its_end(workshop_address: Any) -> None:
    async with kit.pool_of(workshop_address) as pool:
        await warm_at(pool, {})
        calling = asyncio.ensure_future(call(pool, "wait_for_gate"))
        await kit.until(servers.gates.entered.is_set, "the call")
        await pool.close()
        servers.gates.opened.set()
        assert text(await calling) == "let go"


async def test_no_more_calls_run_at_once_than_the_server_takes(workshop_address: Any) -> None:
    async with kit.pool_of(workshop_address) as pool:
        await warm_at(pool, {})
        pool.resize(2)
        calls = [asyncio.ensure_future(call(pool, "wait_for_another")) for _ in range(3)]
        await kit.until(lambda: len(servers.gates.starts) == 2, "two calls")
        await call_of_another_server()
        assert len(servers.gates.starts) == 2
        servers.gates.another.set()
        assert [text(outcome) for outcome in await asyncio.gather(*calls)] == ["let go"] * 3


async def call_of_another_server() -> None:
    """A whole call elsewhere, meanwhile."""
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool:
            assert text(await call(pool, "echo", {"text": "meanwhile"})) == "meanwhile"
