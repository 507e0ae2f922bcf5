"""The workers' own rows."""

from __future__ import annotations

import os
import socket
from datetime import datetime

from django.conf import settings

from taskhub.store import call


def heartbeat(name: str, *, slots: int, busy: int) -> None:
    """This worker is alive; its row appears with the first beat."""
    call.rows(
        """
        INSERT INTO worker (name, host, pid, version, slots, busy, started_at, heartbeat_at)
        VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp())
        ON CONFLICT (name) DO UPDATE SET heartbeat_at = clock_timestamp(), busy = excluded.busy,
            slots = excluded.slots, stopped_at = NULL
        RETURNING id
        """,
        (name, socket.gethostname(), os.getpid(), settings.VERSION, slots, busy),
    )


def heartbeat_of(name: str) -> datetime | None:
    """When this worker was last heard of; `None` if never, or if it said goodbye. Writes its row as a
    heartbeat does, and so fails where that one has to: where nothing can be written, nobody is silent."""
    found = call.row(
        "UPDATE worker SET busy = busy WHERE name = %s AND stopped_at IS NULL RETURNING heartbeat_at", (name,)
    )
    return None if found is None else found[0]


def goodbye(name: str) -> None:
    """This worker ended properly."""
    call.rows(
        "UPDATE worker SET stopped_at = clock_timestamp(), busy = 0 WHERE name = %s"
        " RETURNING id, pg_notify('taskhub', 'k')::text",
        (name,),
    )
