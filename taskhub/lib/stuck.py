"""Ends this process when its event loop hangs. Compose and systemd start a process again only once it has ended, and
do not see that it hangs."""

from __future__ import annotations

import faulthandler
import sys

STUCK_SECONDS = 60.0
"""A process whose loop did not come round for so long ends."""


def still_going() -> None:
    """Call it again and again. When it was not called for `STUCK_SECONDS`, the process writes what each of its threads
    does to standard error and ends with exit code 1. That needs neither the loop nor the interpreter, which code of
    others can hold for ever. Does nothing where standard error is no file."""
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return
    faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
