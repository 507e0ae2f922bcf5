"""One door for every revision: reads the envelope, picks the revision, finds the method."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from taskhub.core.errors import (
    Forbidden,
    Invalid,
    KeyReused,
    LimitReached,
    NotFound,
    Refused,
    TaskHubError,
    Unavailable,
)
from taskhub.protocol import errors
from taskhub.protocol.calls import ScopeMissing
from taskhub.protocol.envelope import BadEnvelope, Envelope, Response, read_envelope
from taskhub.protocol.errors import WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.registry import Door, door_of, open_doors
from taskhub.protocol.replies import error_reply

logger = logging.getLogger(__name__)


async def handle(hub: Hub, incoming: Incoming) -> Reply | Stream:
    """Answer one request to an MCP endpoint. Raises `ScopeMissing` and nothing else for what a client
    sent: its challenge header is the entry room's affair."""
    id: str | int | None = None  # noqa: A001 - the wire's word
    status_of: Callable[[int], int] = errors.http_status
    try:
        if incoming.verb != "POST":
            return await _without_body(hub, incoming)
        _check_media(incoming)
        message = read_envelope(incoming.body)
        id = message.id  # noqa: A001 - the wire's word
        door = door_of(message, incoming, hub.versions)
        status_of = door.status_of
        return await _answer(hub, incoming, door, message)
    except ScopeMissing as error:
        error.id = id
        raise
    except BadEnvelope as error:
        return error_reply(error.id, error)
    except WireError as error:
        return error_reply(id, error, status_of)
    except TaskHubError as error:
        return error_reply(id, wire_error(error), status_of)
    except Exception:
        logger.exception("request failed")
        return error_reply(id, WireError(errors.INTERNAL_ERROR, "Internal error", status=500))


def refuse(hub: Hub, incoming: Incoming, error: TaskHubError) -> Reply:
    """`error` for a message that nobody looks at any further, in the words of its own revision."""
    id: str | int | None = None  # noqa: A001 - the wire's word
    status_of: Callable[[int], int] = errors.http_status
    # What cannot be read is told the same, without its id.
    with contextlib.suppress(WireError):
        if incoming.verb == "POST":
            message = read_envelope(incoming.body)
            id = message.id  # noqa: A001 - the wire's word
            status_of = door_of(message, incoming, hub.versions).status_of
    return error_reply(id, wire_error(error), status_of)


async def _answer(hub: Hub, incoming: Incoming, door: Door, message: Envelope | Response) -> Reply | Stream:
    if isinstance(message, Response):
        await door.responded(hub, incoming, message)
        return Reply(b"", status=202)
    if message.id is None:
        await door.notified(hub, incoming, message)
        return Reply(b"", status=202)
    request = await door.check(hub, incoming, message)
    return await door.methods[request.version][message.method](hub, request)


async def _without_body(hub: Hub, incoming: Incoming) -> Reply | Stream:
    """GET opens the stream of a session and DELETE ends one, where a revision has sessions (B25-07, B25-14)."""
    for door in open_doors(incoming.mount, hub.versions):
        if incoming.verb in door.verbs and "mcp-session-id" in incoming.headers:
            return await door.verbs[incoming.verb](hub, incoming)
    return not_spoken()


def not_spoken() -> Reply:
    """405: without a session only POST is spoken (B26-12)."""
    refusal = error_reply(None, WireError(errors.INVALID_REQUEST, "Send POST", status=405))
    return Reply(refusal.body, status=405, headers={**refusal.headers, "Allow": "POST"})


def wire_error(error: TaskHubError) -> WireError:
    """A domain error in the wire's terms: the one table."""
    match error:
        case NotFound() | Invalid() | Refused():
            return WireError(errors.INVALID_PARAMS, error.message, error.data or None)
        case KeyReused():
            return WireError(errors.KEY_REUSED, error.message)
        case LimitReached():
            return WireError(errors.TOO_MANY, error.message, retry_after=int(error.data.get("retry_after", 1)))
        case Unavailable():
            return WireError(errors.UNAVAILABLE, error.message, retry_after=1)
        case Forbidden():
            return WireError(errors.INVALID_REQUEST, error.message, status=403)
        case _:
            return WireError(errors.INTERNAL_ERROR, "Internal error", status=500)


def _check_media(incoming: Incoming) -> None:
    content = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json":
        raise WireError(
            errors.INVALID_REQUEST, f"Content-Type must be application/json, not {content or 'absent'}", status=415
        )
    accept = incoming.headers.get("accept", "").lower()
    if "*/*" not in accept and not ("application/json" in accept and "text/event-stream" in accept):
        raise WireError(errors.INVALID_REQUEST, "Accept must list application/json and text/event-stream", status=406)


__all__ = ["error_reply", "handle", "not_spoken", "refuse", "wire_error"]
