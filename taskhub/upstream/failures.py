"""Tells from the error of a request to a server whether the connection is lost, and describes the error for people.
Whether a call is tried again is decided elsewhere: by `refusals`, and by `th_try_again` in the database."""

from __future__ import annotations

from typing import Final

import mcp_types as types
from mcp import MCPError

from taskhub.upstream.refusals import refusal

CLOSED: Final = (types.CONNECTION_CLOSED, "Connection closed")
"""Code and message of the SDK's error for a lost connection. Servers use the same code for errors of their own."""

_STREAM_LOST = "SSE stream "
"""The beginning of the SDK's message, with the same code, when the stream of a response ended early."""

_STREAM_FAILED = f"{_STREAM_LOST}failed: "


def gone(error: BaseException) -> bool:
    """Whether the error means that the connection is lost. After any other error of a request, the connection can still
    be used."""
    if not isinstance(error, MCPError):
        return False
    if refused := refusal(error):
        return refused.ended
    code, message = error.error.code, error.error.message
    return (code, message) == CLOSED or (code == types.CONNECTION_CLOSED and message.startswith(_STREAM_LOST))


def lost(error: MCPError) -> bool:
    """Whether the error means that the connection ended during the request, so that the outcome is unknown."""
    return error.error.code == types.CONNECTION_CLOSED and gone(error) and not failure(error)


def failure(error: MCPError) -> str:
    """Why the SDK stopped reading the stream of the response; empty if the error does not say."""
    message = error.error.message
    return message.removeprefix(_STREAM_FAILED) if gone(error) and message.startswith(_STREAM_FAILED) else ""


def innermost(error: BaseException) -> BaseException:
    """The first error inside nested exception groups; any other error itself."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def reason(error: BaseException) -> str:
    """The error as one line of text."""
    error = innermost(error)
    if refused := refusal(error):
        return refused.words()
    return f"{type(error).__name__}: {str(error).splitlines()[0][:300]}" if str(error) else type(error).__name__
