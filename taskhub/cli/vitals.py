"""Whether a part of `up` that lives also does something: a process that hangs looks alive to whoever only waits
for its end.

Nothing here goes by the clock: what counts are looks, each of which found no sign of life where one
could have been. A machine that slept, or a database that was away, so passes for no silence.
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
"""Between two looks."""
SILENT_LOOKS: Final = 6
"""So many times a worker's heartbeat was where it had been, one after the other: it beats every 5 s."""
STARTING_LOOKS: Final = 60
"""So many without any sign since its start: about 5 minutes, in which the slowest machine has started it."""
PROBE_SECONDS = 5.0
"""How long a web process may take to answer `/healthz`, which waits for nothing."""
FAILED_PROBES: Final = 3
"""So many of these failed, one after the other."""


class Sign(Enum):
    """Whether a part gave a sign of life when it was looked at."""

    LIFE = "it does something"
    NONE = "nothing, where there could have been a sign"
    UNKNOWN = "nobody can tell now"


class Silence:
    """Counts the looks at one process without a sign of life. Before the first sign there may be
    `STARTING_LOOKS` of them: a process that is starting has time, and one that hangs in its start an end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heard = False
        self._missed = 0

    @property
    def heard(self) -> bool:
        """Whether there ever was a sign."""
        return self._heard

    def add(self, sign: Sign) -> bool:
        """Whether this look was one too many."""
        self._heard = self._heard or sign is Sign.LIFE
        self._missed = self._missed + 1 if sign is Sign.NONE else 0
        return self._missed >= (self._most if self._heard else STARTING_LOOKS)


class Beats:
    """The heartbeat of a worker on this machine."""

    most = SILENT_LOOKS
    lacking = f"no heartbeat for {SILENT_LOOKS * LOOK_SECONDS:.0f} s"

    def __init__(self) -> None:
        self._last: dict[int, datetime] = {}
        self._throttle = Throttle(60.0)

    def look(self, pid: int) -> Sign:
        """Whether it beat since the last look. What is not known after an error is begun anew: the worker
        has to find its way back to the database as well."""
        try:
            beat = heartbeat_of(f"{socket.gethostname()}:{pid}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no silence
            if not isinstance(explained(error), Unavailable) and self._throttle():
                logger.warning("nobody can tell whether the workers do something: %s", error)
            self._last.clear()
            return Sign.UNKNOWN
        before = self._last.get(pid)
        if beat is None:
            return Sign.NONE if before is None else Sign.UNKNOWN  # not begun, or ending
        if before is None:  # perhaps that of an earlier process with this number
            self._last[pid] = beat
            return Sign.NONE
        self._last[pid] = beat
        return Sign.NONE if beat == before else Sign.LIFE


class Answers:
    """The answers of the web process at `host` and `port`, which knows itself by the name `known_as`."""

    most = FAILED_PROBES
    lacking = f"no answer from /healthz, {FAILED_PROBES} times"

    def __init__(self, host: str, port: int, known_as: str) -> None:
        self._host, self._port, self._known_as = host, port, known_as

    def look(self, pid: int) -> Sign:
        """Whether `/healthz` answers."""
        # No urllib: it would ask a proxy of the environment.
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
    """Look at a part for ever, from a thread of its own; `silent` is told the process that has fallen
    silent, and what is lacking, as often as it is looked at again."""

    def look() -> None:
        pause = threading.Event()
        pid, silence = None, Silence(vitals.most)
        while not pause.wait(LOOK_SECONDS):
            if pid_of() != pid:
                pid, silence = pid_of(), Silence(vitals.most)
            if pid is not None and silence.add(vitals.look(pid)):
                silent(pid, vitals.lacking if silence.heard else "no sign of life since its start")

    threading.Thread(target=look, name="vitals", daemon=True).start()
