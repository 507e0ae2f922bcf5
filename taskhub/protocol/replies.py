"""Whole answers in JSON: a result, or an error with the status its revision gives it."""

from __future__ import annotations

from collections.abc import Callable

from taskhub.protocol.envelope import error_message, result_message
from taskhub.protocol.errors import WireError, http_status
from taskhub.protocol.incoming import Reply

JSON = {"Content-Type": "application/json", "Cache-Control": "no-store"}
"""No cache may keep what belongs to one caller."""


def result_reply(id: str | int | None, result: bytes) -> Reply:  # noqa: A002 - the wire's word
    """200 around an already encoded result."""
    return Reply(result_message(id, result), headers=JSON)


def error_reply(
    id: str | int | None,  # noqa: A002 - the wire's word
    error: WireError,
    status_of: Callable[[int], int] = http_status,
) -> Reply:
    """A JSON error, never HTML and never empty: who looks for a version to share reads the code in it."""
    headers = dict(JSON)
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return Reply(error_message(id, error.body()), status=error.status or status_of(error.code), headers=headers)
