"""Quick checks of the audit log, without reading its events: whether new events are being sealed, and whether the
database is still in the same Postgres cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskhub.store import statements

LONGEST_WAIT: Final = 60.0
"""Seconds after which an event should be sealed: a worker seals every few seconds."""

MOVED: Final = (
    "If it was restored from a dump or upgraded by pg_upgrade: `manage.py audit moved` puts that on record, and the log"
    " goes on"
)


@dataclass(frozen=True, slots=True)
class SealState:
    """The state of sealing now. A position is the id of an event's transaction, shifted after a move (`event.xid`).

    `cluster` is the Postgres cluster that the log is in; `known_in` is the one that it was in at its last verification
    or move. Each is empty if unknown. All positions below `sealed_to` are sealed. `at_xid` is the position of the next
    transaction, `open_xid` that of the oldest running one. `farthest_…` is the event with the highest position;
    `waiting_…` is the oldest event without a seal, which has waited for `waited` seconds. `workers` counts the live
    workers."""

    cluster: str
    known_in: str
    sealed_to: int
    sealed_at: datetime | None
    at_xid: int
    open_xid: int
    farthest_id: int | None
    farthest_xid: int
    waiting_xid: int | None
    waiting_since: datetime | None
    waited: float
    workers: int


seal_state = statements.one("seal_state", SealState)


def misplaced(state: SealState, known_in: str) -> str:
    """Text that says why the log seems to be in another cluster than `known_in`, or why new events get positions that
    are sealed already; empty if neither is so."""
    found = []
    if state.cluster and known_in and state.cluster != known_in:
        found.append(
            f"the database is in another cluster than it was (system identifier {state.cluster}, before {known_in})"
        )
    if state.sealed_to > state.at_xid:
        since = f" at {_when(state.sealed_at)}" if state.sealed_at else ""
        found.append(
            f"transaction ids jumped back: the log was sealed up to {state.sealed_to}{since}, and the cluster is at"
            f" {state.at_xid}, so what is written now can never be sealed by its position"
        )
    return f"{'; '.join(found)}. {MOVED}" if found else ""


def unsealed(state: SealState) -> str:
    """Text that says why events lack a seal, other than by a move; empty while no event has waited for too long."""
    if state.farthest_xid >= state.at_xid:
        return (
            f"event {state.farthest_id} has the transaction id {state.farthest_xid}, and the cluster is only at"
            f" {state.at_xid}: no seal can hold it, and TaskHub did not write it so. Look at it, and who could"
        )
    if state.waited <= LONGEST_WAIT or state.waiting_since is None or state.waiting_xid is None:
        return ""
    since = f"since {_when(state.sealed_at)}" if state.sealed_at else "ever"
    oldest = f"the oldest event that no seal held is from {_when(state.waiting_since)}"
    if state.waiting_xid >= state.open_xid:
        return (
            f"nothing could be sealed {since}: transaction {state.open_xid} is open for as long; {oldest}. End it:"
            " pg_stat_activity (backend_xid) or pg_prepared_xacts tells whose it is"
        )
    if not state.workers:
        return f"no worker has sealed {since}, and none is alive; {oldest}. Start one: `manage.py worker`"
    return f"no worker has sealed {since}, though one is alive; {oldest}. Its log says why"


def _when(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
