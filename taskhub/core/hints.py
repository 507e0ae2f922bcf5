"""Hints: what one process tells all others over `names.HINT_CHANNEL`, and what each of them rings.

A hint says "look again" and carries ids, never data. It may be lost, and then every waiter's own look
every few seconds finds the change; so a hint that a process does not know is ignored, and an older or
newer process beside this one does no harm.

On the wire a hint is a letter and its fields. The letters stay what they are, because SQL functions
write half of them and processes of the release before must understand them: a letter that means
something else is a new letter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import call
from typing import Any, ClassVar, Final

CATALOGUE: Final = "catalogue"
"""The topic that rings when any tool, server or policy changed."""


def context_topic(context_id: int) -> str:
    """The topic that rings when any task of the context changed."""
    return f"context:{context_id}"


STANDING: Final = "standing"
"""The topic that rings when any client's or person's standing may have changed."""


def standing_topic(context_id: int) -> str:
    """The topic that rings when what the context may do has changed."""
    return f"standing:{context_id}"


def session_topic(public_id: str) -> str:
    """The topic that rings when a session ended, or follows other resources."""
    return f"session:{public_id}"


def relay_topic(relay_id: int) -> str:
    """The topic that rings when a relayed request has its outcome."""
    return f"relay:{relay_id}"


def follow_topic(holder: str) -> str:
    """The topic that rings when a worker follows the resources that a stream wants."""
    return f"follow:{holder}"


def resource_topic(server_id: int, uri: str) -> str:
    """The topic that rings when a resource has changed. A digest, since an uri may hold any character."""
    return f"resource:{server_id}:{hashlib.sha256(uri.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


@dataclass(frozen=True)
class Hint:
    """One piece of news. Its fields are numbers and words without spaces, in the order of the wire."""

    letter: ClassVar[str]
    everywhere: ClassVar[tuple[str, ...]] = ()
    """Topics of the console, for the consoles of every tenant."""

    def rings(self) -> tuple[str, ...]:
        """The topics that ring in each web process: a task's public id, or one of this module."""
        return ()

    def __str__(self) -> str:
        return " ".join(map(str, (self.letter, *vars(self).values())))


@dataclass(frozen=True)
class TaskHint(Hint):
    """News of a task."""

    tenant_id: int
    context_id: int
    task_id: int
    public_id: str

    def rings(self) -> tuple[str, ...]:
        """The topic of the task, and that of its context."""
        return (self.public_id, context_topic(self.context_id))

    def in_tenant(self) -> tuple[str, ...]:
        """Topics of the console, for the consoles of its tenant."""
        return (f"task:{self.public_id}", "tasks")


class TaskQueued(TaskHint):
    """A worker may claim it."""

    letter = "r"


class TaskCancelled(TaskHint):
    """Its cancellation was requested: whoever runs it stops."""

    letter = "x"


class TaskChanged(TaskHint):
    """Anything else about it."""

    letter = "t"


class TasksWaiting(Hint):
    """Tasks have been waiting for a worker for some time: look at all of them."""

    letter = "w"


class CatalogueChanged(Hint):
    """A server, tool, offer or policy has changed."""

    letter = "c"
    everywhere = ("servers",)

    def rings(self) -> tuple[str, ...]:
        """Whoever has shown a list."""
        return (CATALOGUE,)


@dataclass(frozen=True)
class ServerStale(Hint):
    """A server is to be connected and read again."""

    letter = "s"
    server_id: int


class StandingChanged(Hint):
    """What some client or person may do has changed. Every stream looks whether it may stay."""

    letter = "p"
    everywhere = ("clients",)


@dataclass(frozen=True)
class ClientStandingChanged(Hint):
    """What one client may do has changed: its streams look whether they may stay."""

    letter = "e"
    everywhere = ("clients",)
    context_id: int

    def rings(self) -> tuple[str, ...]:
        """Its streams."""
        return (standing_topic(self.context_id),)


@dataclass(frozen=True)
class SignedOut(Hint):
    """A browser session of that person ended: their sockets look whether they may stay."""

    letter = "o"
    user_id: int


@dataclass(frozen=True)
class SessionChanged(Hint):
    """A session of a client ended, or follows other resources."""

    letter = "n"
    public_id: str

    def rings(self) -> tuple[str, ...]:
        """Its streams."""
        return (session_topic(self.public_id),)


@dataclass(frozen=True)
class RelayWaiting(Hint):
    """A request waits for a worker that is connected to the server."""

    letter = "q"
    server_id: int
    relay_id: int


@dataclass(frozen=True)
class RelayAnswered(Hint):
    """A relayed request has its outcome."""

    letter = "a"
    relay_id: int

    def rings(self) -> tuple[str, ...]:
        """Its caller."""
        return (relay_topic(self.relay_id),)


@dataclass(frozen=True)
class RelayDropped(Hint):
    """The caller of a relayed request has left: whoever works on it may stop."""

    letter = "g"
    relay_id: int


class InterestsChanged(Hint):
    """Streams want to hear of other resources than before."""

    letter = "i"


@dataclass(frozen=True)
class InterestFollowed(Hint):
    """A worker follows what the stream wants."""

    letter = "f"
    holder: str

    def rings(self) -> tuple[str, ...]:
        """The stream."""
        return (follow_topic(self.holder),)


@dataclass(frozen=True)
class ResourceChanged(Hint):
    """A followed resource has changed; `topic` is its `resource_topic`."""

    letter = "u"
    topic: str

    def rings(self) -> tuple[str, ...]:
        """Whoever follows it."""
        return (self.topic,)


class SchemaChanged(Hint):
    """Another release has changed the database: every process looks whether it can go on."""

    letter = "v"


class WorkerLeft(Hint):
    """A worker ended properly."""

    letter = "k"
    everywhere = ("workers",)


KINDS: Final[tuple[type[Hint], ...]] = (
    TaskQueued,
    TaskCancelled,
    TaskChanged,
    TasksWaiting,
    CatalogueChanged,
    ServerStale,
    StandingChanged,
    ClientStandingChanged,
    SignedOut,
    SessionChanged,
    RelayWaiting,
    RelayAnswered,
    RelayDropped,
    InterestsChanged,
    InterestFollowed,
    ResourceChanged,
    SchemaChanged,
    WorkerLeft,
)


def _readers(kind: type[Hint]) -> tuple[Callable[[str], Any], ...]:
    return tuple(int if field.type == "int" else str for field in fields(kind))


_TABLE: Final = {kind.letter: (kind, _readers(kind)) for kind in KINDS}


def encode(*hints: Hint) -> str:
    """The hints as the payload of one notification. The caller sends few enough: Postgres takes less than 8,000
    bytes."""
    return ";".join(map(str, hints))


def decode(text: str) -> Hint | None:
    """The hint, or `None` for one that this release does not know. A notification may carry several
    (`store.listener` takes it apart)."""
    letter, *given = text.split(" ")
    kind, readers = _TABLE.get(letter, (None, ()))
    if kind is None or len(given) != len(readers):
        return None
    try:
        return kind(*map(call, readers, given))
    except ValueError:
        return None
