"""The end of a process that must come, whatever still runs in it."""

from __future__ import annotations

import logging
import os
import threading

logger = logging.getLogger(__name__)

_armed = threading.Lock()


def end_within(seconds: float, code: int) -> None:
    """End this process with this exit code if it has not ended by itself after so many seconds: a task that ignores
    its cancellation, or a thread that never returns, would keep it for ever. The first call counts. From any thread."""
    if not _armed.acquire(blocking=False):
        return

    def end() -> None:
        logger.critical("this process had not ended after %g s, and is ended now", seconds)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
