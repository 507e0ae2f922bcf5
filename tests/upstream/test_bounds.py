"""How much a server may send over HTTP: servers that send more, on real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.outcomes import Faulted
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.old_http import OldHttpServer

LARGE = 3 * 1_048_576
PART = b"x" * 65_536


class Lavish(OldHttpServer):
    """Its calls answer with far too much, or compressed though nobody asked for that."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.accepted: set[str | None] = set()

    async def _serve(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await super()._serve(scope, receive, send)
            return
        self.accepted.add(dict(scope["headers"]).get(b"accept-encoding", b"").decode())
        body = b""
        while (part := await receive()).get("more_body"):
            body += part["body"]
        body += part["body"]
        message = json.loads(body)
        if message["method"] == "tools/call" and message["params"]["name"] != "echo":
            await self._lavish(message, receive, send)
            return

        async def again() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        await super()._serve(scope, again, send)

    async def _lavish(self, message: dict[str, Any], receive: Any, send: Any) -> None:
        kind, _, name = message["params"]["name"].partition(" ")
        words = "x" * (50_000_000 if name == "packed" else LARGE)
        result = {"content": [{"type": "text", "text": words}]}
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        if kind == "event":
            answer = b"data: " + answer + b"\n\n"
        headers = [(b"content-type", b"text/event-stream" if kind == "event" else b"application/json")]
        status = int(kind) if kind.isdigit() else 200
        if name == "packed":
            headers.append((b"content-encoding", b"GZip"))
            answer = gzip.compress(answer)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if name != "endless":
            await send({"type": "http.response.body", "body": answer})
            return
        await send({"type": "http.response.body", "body": answer[:100], "more_body": True})
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            self.sent += len(PART)
            await send({"type": "http.response.body", "body": PART, "more_body": True})
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["json", "event", "400", "404"])
async def test_an_answer_that_comes_compressed_is_not_read(kind: str) -> None:
    with Lavish() as server:
        async with kit.pool_of(server.target) as pool:
            outcome = await call(pool, f"{kind} packed")
            assert isinstance(outcome, Faulted)
            if not kind.isdigit():
                assert "the answer is compressed (gzip)" in outcome.error["message"]
            assert text(await call(pool, "echo", {"text": "next"})) == "next"
    assert server.accepted == {"identity"}


@pytest.mark.parametrize(("kind", "why"), [("json", f"larger than {MAX_ANSWER} bytes"), ("event", "exceeded")])
async def test_an_endless_answer_is_given_up(kind: str, why: str) -> None:
    with Lavish() as server:
        async with kit.pool_of(server.target) as pool:
            outcome = await call(pool, f"{kind} endless")
            assert isinstance(outcome, Faulted)
            assert why in outcome.error["message"]
            assert text(await call(pool, "echo", {"text": "next"})) == "next"
    assert server.sent < 4 * MAX_ANSWER, "it was hung up on"


@pytest.mark.parametrize("kind", ["json", "event"])
async def test_a_large_answer_below_the_bound_is_read(kind: str) -> None:
    with Lavish() as server:
        async with kit.pool_of(server.target) as pool:
            assert len(text(await call(pool, f"{kind} large"))) == LARGE
