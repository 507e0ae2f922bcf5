"""What the folder of a revision offers to the dispatcher. mypy holds each `methods` module against it."""

# ruff: noqa: N802 - these are the constants of modules

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from taskhub.core.records import TaskRecord
from taskhub.protocol.envelope import Envelope, Response
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply, Stream


class Versioned(Protocol):
    """A request that passed the checks of its door."""

    @property
    def version(self) -> str:
        """The table of methods that serves it."""


R = TypeVar("R", bound=Versioned)

Handler = Callable[[Hub, R], Awaitable[Reply | Stream]]
"""Answers the requests of one method."""

Methods = Mapping[str, Mapping[str, Handler[R]]]
"""Each version of a revision, and what answers the methods of that version."""

Verb = Callable[[Hub, Incoming], Awaitable[Reply | Stream]]
"""Answers requests without a body."""


class Door(Protocol[R]):
    """The `methods` module of a revision; `R` is its own request."""

    @property
    def METHODS(self) -> Methods[R]:
        """By the versions that it speaks."""

    @property
    def VERBS(self) -> Mapping[str, Verb]:
        """What it does without a body."""

    @property
    def STATUSES_SENT_AS_200(self) -> frozenset[int]:
        """Statuses that a request is not answered with on this wire, only the error itself."""

    @property
    def MOUNT(self) -> str:
        """The place below `/mcp` where alone it is served; empty for `/mcp` itself."""

    @property
    def PROFILES(self) -> tuple[str, ...]:
        """Ways of its versions that have no version of their own."""

    def speaks(self, message: Envelope | Response, headers: Mapping[str, str], /) -> bool:
        """Whether the message is this folder's."""

    async def check(self, hub: Hub, incoming: Incoming, envelope: Envelope, /) -> R:
        """The request. Raises `WireError`."""

    async def notified(self, hub: Hub, incoming: Incoming, envelope: Envelope, /) -> None:
        """A notification of the client."""

    async def responded(self, hub: Hub, incoming: Incoming, response: Response, /) -> None:
        """A response of the client."""

    def status_of(self, code: int, /) -> int:
        """Its HTTP status of an error code."""

    def shown(self, task: TaskRecord, /) -> Mapping[str, object] | None:
        """A task of this folder's as its owner would be shown it; `None` without a handle."""
