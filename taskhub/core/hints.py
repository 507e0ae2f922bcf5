"""The hints that processes send each other over `names.HINT_CHANNEL`, and the topics that each hint rings.

A hint says "look again" and carries ids, never data. It may be lost: every waiter also looks by itself
every few seconds. So a process ignores a hint that it does not know, and processes of an older or newer
release can run beside it.

A hint is sent as a letter and its fields. The meaning of a letter never changes, because SQL functions
write half of the hints, and processes of the previous release must understand them: a hint with another
meaning gets a new letter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import call
from typing import Any, ClassVar, Final

CATALOGUE: Final = "catalogue"
"""The topic that rings when any server, tool, offer, policy or rule changed."""


def context_topic(context_id: int) -> str:
    """The topic that rings when any task of this client changed."""
    return f"context:{context_id}"


def run_topic(public_id: str) -> str:
    """The topic that rings when a task runs, asks, or ends. It does not ring when the task becomes `queued`, which
    tells nothing to those who wait for the outcome."""
    return f"run:{public_id}"


STANDING: Final = "standing"
"""The topic that rings when any client's or person's standing may have changed."""


def standing_topic(context_id: int) -> str:
    """The topic that rings when the standing of this client may have changed."""
    return f"standing:{context_id}"


def session_topic(public_id: str) -> str:
    """The topic that rings when a client's session ended, or when the resources that the session follows changed."""
    return f"session:{public_id}"


def relay_topic(relay_id: int) -> str:
    """The topic that rings when a relay has its outcome."""
    return f"relay:{relay_id}"


def follow_topic(holder: str) -> str:
    """The topic that rings when a worker has begun to follow the resources that the stream `holder` wants."""
    return f"follow:{holder}"


def resource_topic(server_id: int, uri: str) -> str:
    """The topic that rings when a resource has changed. It has a digest of the URI, because a URI may hold any
    character."""
    return f"resource:{server_id}:{hashlib.sha256(uri.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


@dataclass(frozen=True)
class Hint:
    """A hint. Its fields are numbers and words without spaces, in the order in which they are sent."""

    letter: ClassVar[str]
    everywhere: ClassVar[tuple[str, ...]] = ()
    """Topics that ring in the consoles of all tenants."""

    def rings(self) -> tuple[str, ...]:
        """The topics that ring in each web process, each a task's public id or a topic of this module."""
        return ()

    def __str__(self) -> str:
        return " ".join(map(str, (self.letter, *vars(self).values())))


@dataclass(frozen=True)
class TaskHint(Hint):
    """A task changed. The base class of hints about one task."""

    tenant_id: int
    context_id: int
    task_id: int
    public_id: str

    def rings(self) -> tuple[str, ...]:
        """The topics of the task, and the topic of its client."""
        return (self.public_id, run_topic(self.public_id), context_topic(self.context_id))

    def in_tenant(self) -> tuple[str, ...]:
        """Topics that ring in the consoles of the task's tenant."""
        return (f"task:{self.public_id}", "tasks")


class TaskQueued(TaskHint):
    """A task is queued: a worker may claim it."""

    letter = "r"

    def rings(self) -> tuple[str, ...]:
        """As `TaskHint.rings`, but without the `run_topic`."""
        return (self.public_id, context_topic(self.context_id))


class TaskCancelled(TaskHint):
    """Cancellation of a task was requested: the worker that runs it stops it."""

    letter = "x"


class TaskChanged(TaskHint):
    """A task changed, and no other hint is about that change."""

    letter = "t"


class TasksWaiting(Hint):
    """Tasks have waited for some time: every worker looks for tasks that it can claim."""

    letter = "w"


@dataclass(frozen=True)
class TaskHeld(Hint):
    """A task may be claimed after `milliseconds`, when the decision on its approval can no longer be undone."""

    letter = "h"
    milliseconds: int


class PollsDue(Hint):
    """A question of a deferred call was answered, or a deferred call is to be cancelled: workers poll such calls
    now."""

    letter = "d"


class PreviewsDue(Hint):
    """People are asked about a call that has a preview: workers run previews that are due."""

    letter = "y"


class CatalogueChanged(Hint):
    """A server, tool, offer, policy or rule has changed."""

    letter = "c"
    everywhere = ("servers",)

    def rings(self) -> tuple[str, ...]:
        """The topic `CATALOGUE`, for all streams that wait for changed lists."""
        return (CATALOGUE,)


@dataclass(frozen=True)
class ServerStale(Hint):
    """Workers have to connect to a server and list it again."""

    letter = "s"
    server_id: int


@dataclass(frozen=True)
class ServerRefreshed(Hint):
    """A person wants a server listed again: workers find out which versions it speaks, and list it."""

    letter = "l"
    server_id: int


class StandingChanged(Hint):
    """The standing of some client or person changed: every stream checks whether it may go on."""

    letter = "p"
    everywhere = ("clients",)


@dataclass(frozen=True)
class ClientStandingChanged(Hint):
    """The standing of one client changed, or it got a token: its streams check whether they may go on."""

    letter = "e"
    everywhere = ("clients",)
    context_id: int

    def rings(self) -> tuple[str, ...]:
        """The topic of the client's streams."""
        return (standing_topic(self.context_id),)


@dataclass(frozen=True)
class SignedOut(Hint):
    """A browser session of a person ended: the WebSockets of this person check whether they may stay open."""

    letter = "o"
    user_id: int


@dataclass(frozen=True)
class SessionChanged(Hint):
    """A client's session ended, or the resources that it follows changed."""

    letter = "n"
    public_id: str

    def rings(self) -> tuple[str, ...]:
        """The topic of the session's streams."""
        return (session_topic(self.public_id),)


@dataclass(frozen=True)
class RelayWaiting(Hint):
    """A relay waits for a worker that is connected to the server."""

    letter = "q"
    server_id: int
    relay_id: int


@dataclass(frozen=True)
class RelayAnswered(Hint):
    """A relay has its outcome."""

    letter = "a"
    relay_id: int

    def rings(self) -> tuple[str, ...]:
        """The topic of the relay's caller."""
        return (relay_topic(self.relay_id),)


@dataclass(frozen=True)
class RelayDropped(Hint):
    """The caller of a relay has left: the worker that makes the request may stop."""

    letter = "g"
    relay_id: int


class InterestsChanged(Hint):
    """The set of resources that streams follow has changed."""

    letter = "i"


@dataclass(frozen=True)
class InterestFollowed(Hint):
    """A worker has begun to follow the resources that the stream `holder` wants."""

    letter = "f"
    holder: str

    def rings(self) -> tuple[str, ...]:
        """The topic of the stream."""
        return (follow_topic(self.holder),)


@dataclass(frozen=True)
class ResourceChanged(Hint):
    """A followed resource has changed; `topic` is its `resource_topic`."""

    letter = "u"
    topic: str

    def rings(self) -> tuple[str, ...]:
        """The topic of the streams that follow the resource."""
        return (self.topic,)


class SchemaChanged(Hint):
    """Another release has changed the database schema: every process checks whether it can work with it."""

    letter = "v"


class WorkerLeft(Hint):
    """A worker has shut down cleanly."""

    letter = "k"
    everywhere = ("workers",)


KINDS: Final[tuple[type[Hint], ...]] = (
    TaskQueued,
    TaskCancelled,
    TaskChanged,
    TasksWaiting,
    TaskHeld,
    PollsDue,
    PreviewsDue,
    CatalogueChanged,
    ServerStale,
    ServerRefreshed,
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
    """The hints as the payload of one NOTIFY. The caller must keep it below 8,000 bytes, the limit of Postgres."""
    return ";".join(map(str, hints))


def decode(text: str) -> Hint | None:
    """The hint that `text` encodes, or `None` for one that this release does not know. `text` has one hint:
    `store.listener` splits payloads of several."""
    letter, *given = text.split(" ")
    kind, readers = _TABLE.get(letter, (None, ()))
    if kind is None or len(given) != len(readers):
        return None
    try:
        return kind(*map(call, readers, given))
    except ValueError:
        return None
