"""The sessions of clients at servers: which worker has which session, and why earlier sessions were lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from taskhub.store import statements

KEPT_DAYS: Final = 7
"""Days for which the row of an ended session is kept, so that the client's next call can be told why it ended."""

SHOWN: Final = 100
"""The most sessions of one server that are listed."""


class _Taken(NamedTuple):
    granted: bool
    lost: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A client's session at a server, open or ended within a day. `why`: the reason why it ended; empty while it is
    open."""

    client: str
    worker: str
    pid: int | None
    memory: int | None
    opened_at: datetime
    ended_at: datetime | None
    why: str


_TAKE = statements.one("take_session", _Taken)
_OPENED = statements.none("session_opened")
_ENDED = statements.none("session_ended")
_GIVEN_UP = statements.none("session_given_up")
_MEMORY = statements.none("store_memory")
_PURGE = statements.rowcount("purge_upstream_sessions")
_SESSIONS = statements.many("upstream_sessions", SessionRow)


def take_session(server_id: int, context_id: int, *, worker: str) -> str | None:
    """Take the client's session at the server for this worker, so that no other living worker gets the client's calls.
    Returns why the earlier session was lost, or an empty text if none was lost; `None` if another living worker has the
    session."""
    taken = _TAKE(server=server_id, context=context_id, worker=worker)
    return taken.lost if taken.granted else None


def session_opened(server_id: int, context_id: int, *, worker: str, pid: int) -> None:
    """Store the id of the process that serves the session."""
    _OPENED(server=server_id, context=context_id, worker=worker, pid=pid)


def session_ended(server_id: int, context_id: int, *, worker: str, why: str) -> None:
    """Store why the session ended. An empty reason means that it was never opened: its row is deleted."""
    if why:
        _ENDED(server=server_id, context=context_id, worker=worker, why=why[:200])
    else:
        _GIVEN_UP(server=server_id, context=context_id, worker=worker)


def store_memory(worker: str, memory: Mapping[int, int]) -> None:
    """Store how many bytes of memory processes of this worker use, by process id."""
    _MEMORY(worker=worker, pids=list(memory), memories=list(memory.values()))


def purge_upstream_sessions(*, days: int = KEPT_DAYS, limit: int = 1_000) -> int:
    """Delete at most `limit` rows of sessions that ended more than `days` days ago, or that a worker which is gone by
    now opened more than `days` days ago. Returns how many were deleted."""
    return _PURGE(days=days, most=limit)


def sessions_at(server_id: int) -> list[SessionRow]:
    """The sessions of clients at a server, open ones first."""
    return _SESSIONS(server=server_id, most=SHOWN)
