"""The requests that `api` passes to the protocol, and the answers that it gets back. They depend on no HTTP library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from taskhub.core.records import Principal


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request to an MCP endpoint. `headers` maps lower-case names to trimmed values; `repeated` names the headers
    that came more than once. `gone` returns when the peer has left; `valid` returns whether the request's token is
    still valid, for streams that go on after the first check. `mount` is the part of the path after `/mcp/`, which
    selects the revisions that are served there."""

    body: bytes
    headers: Mapping[str, str]
    repeated: frozenset[str]
    principal: Principal
    address: str
    gone: Callable[[], Awaitable[None]]
    valid: Callable[[], Awaitable[bool]] = _always
    verb: str = "POST"
    mount: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in one piece."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A `text/event-stream` answer; each item is written and flushed as it comes."""

    frames: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def event(message: bytes, event_id: str = "") -> bytes:
    """One SSE event holding one compact JSON-RPC message (B26-08)."""
    head = b"id: " + event_id.encode("ascii") + b"\n" if event_id else b""
    return head + b"event: message\ndata: " + message + b"\n\n"


KEEP_ALIVE = b": keep-alive\n\n"
