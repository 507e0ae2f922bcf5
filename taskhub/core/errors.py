"""Domain errors: few classes, each with a stable code and named data.

Each package that takes requests maps the codes, in one place, to JSON-RPC errors, pages or exit codes.
"""

from __future__ import annotations

from typing import Any


class TaskHubError(Exception):
    """Base class of all errors that a caller may be told about."""

    code = "error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class NotFound(TaskHubError):
    """The object does not exist or belongs to somebody else; the caller is never told which."""

    code = "not_found"


class Forbidden(TaskHubError):
    """The caller's role or scopes do not allow the request."""

    code = "forbidden"


class Refused(TaskHubError):
    """The state of the object does not allow the request; nothing changed."""

    code = "refused"


class Invalid(TaskHubError):
    """The input is not valid; nothing changed."""

    code = "invalid"


class KeyReused(TaskHubError):
    """An idempotency key came again for another tool, with other arguments, or in another revision of the protocol."""

    code = "idempotency_key_reused"


class LimitReached(TaskHubError):
    """A documented limit is reached. `data` may have `retry_after`, in seconds."""

    code = "limit_reached"


class Unavailable(TaskHubError):
    """The database cannot be reached or is too busy; the caller may try again."""

    code = "unavailable"


class DiskFull(Unavailable):
    """The database's disk is full: nothing can be written, but reads work."""
