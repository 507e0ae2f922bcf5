"""Whether a part of `up` works: a process that hangs has not ended, so waiting for its end does not show it.

Looks are counted here, not time: looks without a sign of life where there could have been one. So a machine that slept,
or a database that was away, does not count as silence.
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
"""Seconds between two looks."""
SILENT_LOOKS: Final = 6
"""Looks in a row at which a worker's heartbeat, which comes every 5 s, had not moved."""
STARTING_LOOKS: Final = 60
"""Looks without any sign since the process started: about 5 minutes, enough for the slowest machine."""
PROBE_SECONDS = 5.0
"""How long a web process may take to answer `/healthz`, which waits for nothing."""
FAILED_PROBES: Final = 3
"""Failed probes in a row."""


class Sign(Enum):
    """Whether a part gave a sign of life at a look."""

    LIFE = "it does something"
    NONE = "nothing, where there could have been a sign"
    UNKNOWN = "nobody can tell now"


class Silence:
    """Counts the looks at one process without a sign of life. Before the first sign `STARTING_LOOKS` are allowed: a
    process needs time to start, but one that hangs in its start must be ended."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heard = False
        self._missed = 0

    @property
    def heard(self) -> bool:
        """Whether there was ever a sign."""
        return self._heard

    def add(self, sign: Sign) -> bool:
        """Add a look. Returns whether the process counts as hanging."""
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
        """Whether the heartbeat moved since the last look. After an error all counting begins anew: the worker has to
        get back to the database as well."""
        try:
            beat = heartbeat_of(f"{socket.gethostname()}:{pid}")
        except Exception as error:  # noqa: BLE001 - no error here says anything about the worker
            if not isinstance(explained(error), Unavailable) and self._throttle():
                logger.warning("nobody can tell whether the workers do something: %s", error)
            self._last.clear()
            return Sign.UNKNOWN
        before = self._last.get(pid)
        if beat is None:
            return Sign.NONE if before is None else Sign.UNKNOWN  # the worker has not begun to beat, or is ending
        if before is None:  # perhaps that of an earlier process with this number
            self._last[pid] = beat
            return Sign.NONE
        self._last[pid] = beat
        return Sign.NONE if beat == before else Sign.LIFE


class Answers:
    """The answers of the web process at `host` and `port`, which accepts the `Host` header `known_as`."""

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
    """Look at a part for ever, in a thread of its own. `silent` is called with the process that gives no sign of life
    and with what is lacking, at every look until another process is there."""

    def look() -> None:
        pause = threading.Event()
        pid, silence = None, Silence(vitals.most)
        while not pause.wait(LOOK_SECONDS):
            if pid_of() != pid:
                pid, silence = pid_of(), Silence(vitals.most)
            if pid is not None and silence.add(vitals.look(pid)):
                silent(pid, vitals.lacking if silence.heard else "no sign of life since its start")

    threading.Thread(target=look, name="vitals", daemon=True).start()
