"""The rows of workers, which they write themselves."""

from __future__ import annotations

import os
import socket
from datetime import datetime

from django.conf import settings

from taskhub.core.hints import WorkerLeft, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.store import statements

_HEARTBEAT = statements.none("heartbeat")
_HEARTBEAT_OF = statements.maybe("heartbeat_of", datetime)
_GOODBYE = statements.none("goodbye")


def heartbeat(name: str, *, slots: int, busy: int, in_place: bool = False) -> None:
    """Record that this worker is alive; its row appears with the first heartbeat. `in_place`: it is a web process,
    which takes no tasks from the queue."""
    _HEARTBEAT(
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=settings.VERSION,
        slots=slots,
        busy=busy,
        in_place=in_place,
    )


def heartbeat_of(name: str) -> datetime | None:
    """When this worker last sent a heartbeat; `None` if never, or if it has ended. Writes to the worker's row, as a
    heartbeat does: so this raises if heartbeats fail because of the database, and no worker is taken for silent
    then."""
    return _HEARTBEAT_OF(name=name)


def goodbye(name: str) -> None:
    """Record that this worker ended properly."""
    _GOODBYE(name=name, channel=HINT_CHANNEL, hint=encode(WorkerLeft()))
