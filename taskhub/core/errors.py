"""Domain errors: few classes, each with a stable code and named data.

Entry rooms map the code to a JSON-RPC error, a page or an exit code, once.
"""

from __future__ import annotations

from typing import Any


class TaskHubError(Exception):
    """Base of every error a caller may be told about."""

    code = "error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class NotFound(TaskHubError):
    """Missing, or somebody else's: a caller is never told which."""

    code = "not_found"


class Forbidden(TaskHubError):
    """The role or scope does not allow it."""

    code = "forbidden"


class Refused(TaskHubError):
    """The request contradicts the state of the thing; nothing changed."""

    code = "refused"


class Invalid(TaskHubError):
    """The input is not what was asked for; nothing changed."""

    code = "invalid"


class KeyReused(TaskHubError):
    """An idempotency key came again with other arguments."""

    code = "idempotency_key_reused"


class LimitReached(TaskHubError):
    """A documented limit; `retry_after` seconds may stand in `data`."""

    code = "limit_reached"


class Unavailable(TaskHubError):
    """The database is away; try again."""

    code = "unavailable"


class DiskFull(Unavailable):
    """The database has no room for anything new; what it has can be read."""
