"""The workers' own rows."""

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


def heartbeat(name: str, *, slots: int, busy: int) -> None:
    """This worker is alive; its row appears with the first beat."""
    _HEARTBEAT(name=name, host=socket.gethostname(), pid=os.getpid(), version=settings.VERSION, slots=slots, busy=busy)


def heartbeat_of(name: str) -> datetime | None:
    """When this worker was last heard of; `None` if never, or if it said goodbye. Writes its row as a
    heartbeat does, and so fails where that one has to: where nothing can be written, nobody is silent."""
    return _HEARTBEAT_OF(name=name)


def goodbye(name: str) -> None:
    """This worker ended properly."""
    _GOODBYE(name=name, channel=HINT_CHANNEL, hint=encode(WorkerLeft()))
