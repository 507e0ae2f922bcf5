"""Ends a process that does not end by itself: after too long a shutdown, when its event loop hangs, when its supervisor
is gone. Compose and systemd start a process again only once it has ended, and do not see that it hangs.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
import time

logger = logging.getLogger(__name__)

STUCK_SECONDS = 60.0
"""The process is ended if its event loop makes no iteration for this many seconds."""

_armed = threading.Lock()


def end_within(seconds: float, code: int) -> None:
    """End this process with exit code `code` if it is still alive after `seconds`: a task that ignores cancellation, or
    a thread that never returns, would keep it alive for ever. Calls after the first have no effect. Thread-safe."""
    if not _armed.acquire(blocking=False):
        return

    def end() -> None:
        logger.critical("this process had not ended after %g s, and is ended now", seconds)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def still_going() -> None:
    """Report that the event loop runs; to be called often. After `STUCK_SECONDS` without a call the process writes the
    traceback of each thread to standard error and ends with exit code 1, even if a tool's code never releases the GIL.
    Does nothing if standard error is not a file."""
    if _has_file():
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)


def show_threads() -> None:
    """Write the traceback of each thread to standard error. Does nothing if standard error is not a file."""
    if _has_file():
        faulthandler.dump_traceback()


def _has_file() -> bool:
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def follow_supervisor() -> None:
    """Send this process SIGTERM when the `manage.py up` that started it has ended or was killed. Does nothing in a
    process that `up` did not start."""
    supervisor = os.environ.get("TASKHUB_SUPERVISOR")
    if not supervisor:
        return

    def watch() -> None:
        while os.getppid() == int(supervisor):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()
