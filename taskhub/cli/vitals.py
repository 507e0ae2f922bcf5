"""Checks whether a part of `up` hangs, that is, does not work although its process still runs.

A part counts as hanging when several checks in a row found no sign of life, though it could have given one. Checks are
counted, not time, so that a machine that slept, or a database that was away, does not count against the part.
"""

from __future__ import annotations

import http.client
import logging
import socket
import threading
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Final

from taskhub.core.errors import Unavailable
from taskhub.domain.workers.writes import heartbeat_of
from taskhub.lib.throttle import Throttle
from taskhub.store.call import explained

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Seconds between two checks ("looks") of a part."""
SILENT_LOOKS: Final = 6
"""A worker hangs if this many looks in a row find no new heartbeat. There should be one every 5 seconds."""
STARTING_LOOKS: Final = 60
"""A process that has never given a sign of life hangs if this many looks in a row find none. That is about 5 minutes,
enough for a start on the slowest machine."""
PROBE_SECONDS = 5.0
"""The most seconds that a web process may take to answer `/healthz`, which needs no database."""
FAILED_PROBES: Final = 3
"""A web process hangs if this many probes in a row fail."""


class Sign(Enum):
    """The result of a look: whether the part gave a sign of life."""

    LIFE = "it does something"
    NONE = "nothing, where there could have been a sign"
    UNKNOWN = "nobody can tell now"


class Silence:
    """Counts, for one process, the looks in a row without a sign of life. The process hangs after `most` of them, or,
    before its first sign of life, after `STARTING_LOOKS`, because it needs time to start."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heard = False
        self._missed = 0

    @property
    def heard(self) -> bool:
        """Whether the process has ever given a sign of life."""
        return self._heard

    def add(self, sign: Sign) -> bool:
        """Count a look with this result. Returns whether the process hangs."""
        self._heard = self._heard or sign is Sign.LIFE
        self._missed = self._missed + 1 if sign is Sign.NONE else 0
        return self._missed >= (self._most if self._heard else STARTING_LOOKS)


class Beats:
    """Looks at the heartbeat, in the database, of a worker on this machine."""

    most = SILENT_LOOKS
    lacking = f"no heartbeat for {SILENT_LOOKS * LOOK_SECONDS:.0f} s"

    def __init__(self) -> None:
        self._last: dict[int, datetime] = {}
        self._throttle = Throttle(60.0)

    def look(self, pid: int) -> Sign:
        """Whether there is a new heartbeat since the last look. After a database error, earlier heartbeats are
        forgotten, because the worker has to reconnect as well."""
        try:
            beat = heartbeat_of(f"{socket.gethostname()}:{pid}")
        except Exception as error:  # noqa: BLE001 - an error here says nothing about the worker
            if not isinstance(explained(error), Unavailable) and self._throttle():
                logger.warning("nobody can tell whether the workers do something: %s", error)
            self._last.clear()
            return Sign.UNKNOWN
        before = self._last.get(pid)
        if beat is None:
            return Sign.NONE if before is None else Sign.UNKNOWN  # the worker has sent no heartbeat yet, or is ending
        if before is None:  # perhaps the heartbeat of an earlier process with this id
            self._last[pid] = beat
            return Sign.NONE
        self._last[pid] = beat
        return Sign.NONE if beat == before else Sign.LIFE


class Answers:
    """Looks at `/healthz` of the web process at `host` and `port`, which accepts the `Host` header `known_as`."""

    most = FAILED_PROBES
    lacking = f"no answer from /healthz, {FAILED_PROBES} times"

    def __init__(self, host: str, port: int, known_as: str) -> None:
        self._host, self._port, self._known_as = host, port, known_as

    def look(self, pid: int) -> Sign:
        """Whether `/healthz` answers 200 within `PROBE_SECONDS`."""
        # Not urllib, which would use a proxy that the environment names.
        asking = http.client.HTTPConnection(self._host.strip("[]"), self._port, timeout=PROBE_SECONDS)
        try:
            asking.request("GET", "/healthz", headers={"Host": self._known_as, "Connection": "close"})
            return Sign.LIFE if asking.getresponse().status == 200 else Sign.NONE
        except (OSError, http.client.HTTPException):
            return Sign.NONE
        finally:
            asking.close()


Vitals = Beats | Answers


def watch(vitals: Vitals, pid_of: Callable[[], int | None], silent: Callable[[int, str], None]) -> None:
    """Start a thread that looks at a part for ever. If its process hangs, `silent` is called with the process's id and
    the missing sign of life, at every look until there is another process."""

    def look() -> None:
        pause = threading.Event()
        pid, silence = None, Silence(vitals.most)
        while not pause.wait(LOOK_SECONDS):
            if pid_of() != pid:
                pid, silence = pid_of(), Silence(vitals.most)
            if pid is not None and silence.add(vitals.look(pid)):
                silent(pid, vitals.lacking if silence.heard else "no sign of life since its start")

    threading.Thread(target=look, name="vitals", daemon=True).start()
