"""The entry point for requests of every revision: reads the envelope, picks the revision, calls the method."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from taskhub.protocol.envelope import BadEnvelope, Envelope, Response, error_reply, from_ends, read_envelope
from taskhub.protocol.errors import WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream
from taskhub.protocol.registry import open_revisions, revision_of
from taskhub.protocol.revision import Revision

logger = logging.getLogger(__name__)

_END = 4_096
"""How many bytes of each end of a body are read if it is not JSON."""


async def handle(hub: Hub, incoming: Incoming) -> Reply | Stream:
    """Answer one request to an MCP endpoint. Errors become replies, whatever the client sent; only `ScopeMissing` is
    raised, for which `api` adds a challenge header."""
    message: Envelope | Response | None = None
    revision: Revision[Any] | None = None
    try:
        if incoming.verb != "POST":
            return await _without_body(hub, incoming)
        _check_media(incoming)
        message = read_envelope(incoming.body)
        revision = revision_of(message, incoming.headers, incoming.mount, hub.versions)
        answer = await _answer(hub, incoming, revision, message)
        return _downgrade_status(revision, message, answer) if isinstance(answer, Reply) else answer
    except ScopeMissing as error:
        error.id = None if message is None else message.id
        raise
    except BadEnvelope as error:
        hub.failed(error.code)
        return _unread(hub, incoming, error)
    except Exception as error:  # noqa: BLE001 - `_failed` logs and answers it
        return _failed(hub, revision, message, error)


def _unread(hub: Hub, incoming: Incoming, error: BadEnvelope) -> Reply:
    """The error for a body that is not a JSON-RPC message. If the ends of the body tell the id of the request, and its
    revision sends errors with status 200, the answer has this id and status 200: clients of that revision end their
    session at any other status."""
    message = None if error.id is not None else from_ends(incoming.body[:_END], incoming.body[-_END:])
    revision = None if message is None else _revision(hub, message, incoming.headers, incoming.mount)
    if message is None or revision is None or not revision.statuses_sent_as_200:
        return error_reply(error.id, error)
    return replace(error_reply(message.id, error), status=200)


def failure(hub: Hub, error: Exception, *, body: bytes, headers: Mapping[str, str], mount: str) -> Reply:
    """The answer to a request that failed before it reached `handle`."""
    try:
        message = read_envelope(body)
    except BadEnvelope:
        return _failed(hub, None, None, error)
    return _failed(hub, _revision(hub, message, headers, mount), message, error)


def too_large(hub: Hub, why: str, *, head: bytes, tail: bytes, headers: Mapping[str, str], mount: str) -> Reply:
    """The answer to a body that was too large, so that only its two ends were kept: 413, or 200 with the error if the
    revision replaces that status and the ends tell the id of the request."""
    error = WireError(errors.INVALID_REQUEST, why, status=413)
    message = from_ends(head, tail)
    return _failed(hub, None if message is None else _revision(hub, message, headers, mount), message, error)


def _revision(hub: Hub, message: Envelope | Response, headers: Mapping[str, str], mount: str) -> Revision[Any] | None:
    try:
        return revision_of(message, headers, mount, hub.versions)
    except WireError:
        return None


def _failed(hub: Hub, revision: Revision[Any] | None, message: Envelope | Response | None, error: Exception) -> Reply:
    """The error as the answer to `message`, as far as message and revision are known."""
    if isinstance(error, TaskHubError):
        error = wire_error(error)
    elif not isinstance(error, WireError):
        logger.error("request failed", exc_info=error)
        error = WireError(errors.INTERNAL_ERROR, "Internal error", status=500)
    hub.failed(error.code)
    reply = error_reply(
        None if message is None else message.id, error, errors.http_status if revision is None else revision.status_of
    )
    return reply if revision is None or message is None else _downgrade_status(revision, message, reply)


def _downgrade_status(revision: Revision[Any], message: Envelope | Response, reply: Reply) -> Reply:
    """`reply` with a status that clients of this revision can handle.

    The sender of a notification expects no answer and can do nothing about an error, so it gets 202. A client's
    response keeps the status, which is the only sign to the client that the response was not taken.
    """
    if reply.status not in revision.statuses_sent_as_200 or isinstance(message, Response):
        return reply
    if message.id is None:
        logger.warning("%s was received and had no effect: %s", message.method[:64], reply.body.decode())
        return Reply(b"", status=202)
    return replace(reply, status=200)


async def _answer(
    hub: Hub, incoming: Incoming, revision: Revision[Any], message: Envelope | Response
) -> Reply | Stream:
    if isinstance(message, Response):
        await revision.responded(hub, incoming, message)
        return Reply(b"", status=202)
    if message.id is None:
        await revision.notified(hub, incoming, message)
        return Reply(b"", status=202)
    request = await revision.check(hub, incoming, message)
    began = time.perf_counter()
    try:
        return await revision.methods[request.version][message.method](hub, request)
    finally:
        hub.served(message.method, request.version, time.perf_counter() - began)


async def _without_body(hub: Hub, incoming: Incoming) -> Reply | Stream:
    """Answer a request without a body: GET opens the stream of a session and DELETE ends the session, in revisions that
    have sessions (B25-07, B25-14)."""
    for revision in open_revisions(incoming.mount, hub.versions):
        if incoming.verb in revision.verbs and "mcp-session-id" in incoming.headers:
            return await revision.verbs[incoming.verb](hub, incoming)
    return not_spoken()


def not_spoken() -> Reply:
    """405: outside of a session, only POST is served (B26-12)."""
    refusal = error_reply(None, WireError(errors.INVALID_REQUEST, "Send POST", status=405))
    return Reply(refusal.body, status=405, headers={**refusal.headers, "Allow": "POST"})


def wire_error(error: TaskHubError) -> WireError:
    """The JSON-RPC error for an error of `domain`. The mapping is only here."""
    match error:
        case NotFound() | Invalid() | Refused():
            return WireError(errors.INVALID_PARAMS, error.message, error.data or None)
        case KeyReused():
            return WireError(errors.KEY_REUSED, error.message)
        case LimitReached():
            return WireError(errors.TOO_MANY, error.message, retry_after=int(error.data.get("retry_after", 1)))
        case Unavailable():
            return WireError(errors.UNAVAILABLE, error.message, retry_after=int(error.data.get("retry_after", 1)))
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


__all__ = ["error_reply", "failure", "handle", "not_spoken", "too_large", "wire_error"]
