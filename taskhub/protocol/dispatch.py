"""One door for every revision: reads the envelope, picks the revision, finds the method."""

from __future__ import annotations

import logging

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
from taskhub.protocol.envelope import BadEnvelope, Envelope, error_message, read_envelope
from taskhub.protocol.errors import WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.registry import METHODS, door_of

logger = logging.getLogger(__name__)

JSON = {"Content-Type": "application/json"}


async def handle(hub: Hub, incoming: Incoming) -> Reply | Stream:
    """Answer one POST to `/mcp`. Raises `ScopeMissing` and nothing else for what a client sent:
    its challenge header is the entry room's affair."""
    try:
        _check_media(incoming)
        envelope = read_envelope(incoming.body)
    except WireError as error:
        return error_reply(error.id if isinstance(error, BadEnvelope) else None, error)
    if envelope.id is None:
        # Core defines no client notification over HTTP; a cancellation travels by disconnect (B26-06, B26-82).
        return Reply(b"", status=202)
    try:
        door = door_of(envelope, incoming, hub.versions)
        request = door.check(envelope, incoming, hub)
        handler = METHODS[(envelope.method, door.version)]
        return await handler(hub, request)
    except ScopeMissing as error:
        error.id = envelope.id
        raise
    except WireError as error:
        return error_reply(envelope.id, error)
    except TaskHubError as error:
        return error_reply(envelope.id, wire_error(error))
    except Exception:
        logger.exception("request failed", extra={"method": envelope.method})
        return error_reply(envelope.id, WireError(errors.INTERNAL_ERROR, "Internal error", status=500))


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


def error_reply(id: str | int | None, error: WireError) -> Reply:  # noqa: A002 - the wire's word
    """A JSON error: never HTML, never empty (3.3 rule 5)."""
    headers = dict(JSON)
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return Reply(error_message(id, error.body()), status=error.status, headers=headers)


def _check_media(incoming: Incoming) -> None:
    content = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json":
        raise WireError(
            errors.INVALID_REQUEST, f"Content-Type must be application/json, not {content or 'absent'}", status=415
        )
    accept = incoming.headers.get("accept", "").lower()
    if "*/*" not in accept and not ("application/json" in accept and "text/event-stream" in accept):
        raise WireError(errors.INVALID_REQUEST, "Accept must list application/json and text/event-stream", status=406)


__all__ = ["Envelope", "error_reply", "handle", "wire_error"]
