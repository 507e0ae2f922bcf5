"""Keeps what is in a process's memory and environment from others of the same user."""

from __future__ import annotations

import ctypes
import logging
import resource
import sys
from typing import Final

_SET_DUMPABLE: Final = 4
"""`PR_SET_DUMPABLE` of Linux."""

logger = logging.getLogger(__name__)


def keep_private() -> None:
    """Keep other processes of this user from tracing this process, and from reading its memory and environment. Neither
    this process nor the programs that it starts leave a core dump; those programs can be traced and read."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        logger.warning("the memory of this process can be read by others of its user: prctl failed")
