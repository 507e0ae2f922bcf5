"""The interface between the dispatcher and the folder of a revision: one `Revision`, at the end of its `methods`
module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from taskhub.core.records import Principal, TaskRecord
from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.errors import http_status
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream


@dataclass(frozen=True, slots=True)
class Request:
    """A request that passed the checks of its revision. Revisions add fields of their own."""

    version: str
    """The version whose table of methods serves it."""
    id: str | int
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    principal: Principal
    incoming: Incoming


R = TypeVar("R", bound=Request)

Handler = Callable[[Hub, R], Awaitable[Reply | Stream]]
"""Answers the requests of one method."""

Methods = Mapping[str, Mapping[str, Handler[R]]]
"""For each version of a revision, the handlers of its methods."""

Verb = Callable[[Hub, Incoming], Awaitable[Reply | Stream]]
"""Answers requests without a body."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Revision(Generic[R]):
    """The functions and facts by which a revision is served; `R` is its own type of request."""

    methods: Methods[R]
    """The handlers, by version and by name of the method."""
    check: Callable[[Hub, Incoming, Envelope], Awaitable[R]]
    """Checks a request and returns it as `R`. Raises `WireError`."""
    notified: Callable[[Hub, Incoming, Envelope], Awaitable[None]]
    """Takes a notification of the client."""
    responded: Callable[[Hub, Incoming, Response], Awaitable[None]]
    """Takes a response of the client."""
    shown: Callable[[TaskRecord], Mapping[str, object] | None]
    """A task of this revision as `tasks/get` would show it; `None` for a task without a handle."""
    speaks: Callable[[Envelope | Response, Mapping[str, str]], bool] = lambda message, headers: True
    """Whether the message belongs to this revision. Not called for the newest revision of a mount, which gets all
    messages that belong to no other."""
    verbs: Mapping[str, Verb] = field(default_factory=dict)
    """The handlers of requests without a body, by HTTP method."""
    status_of: Callable[[int], int] = http_status
    """The HTTP status of an error code in this revision."""
    statuses_sent_as_200: frozenset[int] = frozenset()
    """Statuses that this revision replaces by 200; the error in the body stays."""
    mount: str = ""
    """The path below `/mcp` at which this revision is served; empty if it is served at `/mcp` itself."""
    profiles: tuple[str, ...] = ()
    """The names of its profiles: variants of its versions that have no version of their own."""
