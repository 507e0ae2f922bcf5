"""Remembers, for this process, whether the database accepts writes: its disk may be full, or it may be read-only.

Postgres does not tell how much room its disk has, so a write that found it full is noted here. To find out whether
there is room again, a query needs a temporary file of a megabyte (`domain.health.checks.disk_is_full`).
"""

from __future__ import annotations

import logging
import time
from typing import Final

logger = logging.getLogger(__name__)

FULL: Final = "The database's disk is full: nothing new can be stored."
RETRY_SECONDS: Final = 10
"""The `Retry-After` of a refused write."""
LOOK_SECONDS: Final = 5.0
"""The least time between two checks of a full disk."""

ONLY_READS: Final = "The database only reads: nothing new can be stored."
"""For a standby, or a database with `default_transaction_read_only`, which providers set when a disk is full."""

_full = False
_only_reads = False
_looked_at = float("-inf")


def note_full() -> None:
    """Note that a write found the disk full."""
    global _full
    if not _full:
        logger.error("%s Reads go on.", FULL)
    _full = True


def note_room() -> None:
    """Note that the disk has room: a megabyte could be written."""
    global _full
    if _full:
        logger.warning("The database's disk has room again.")
    _full = False


def note_only_reads() -> None:
    """Note that the database is read-only: it refused a write, or reported so at the start of a session."""
    global _only_reads
    if not _only_reads:
        logger.error("%s Reads go on.", ONLY_READS)
    _only_reads = True


def note_writes() -> None:
    """Note that the database accepts writes: it reported so at the start of a session."""
    global _only_reads
    if _only_reads:
        logger.warning("The database takes what is written again.")
    _only_reads = False


def only_reads() -> bool:
    """Whether the database is read-only, or its disk full, according to the last note."""
    return _only_reads or _full


def full() -> bool:
    """Whether the disk was full according to the last note."""
    return _full


def due() -> bool:
    """Whether the caller should check a full disk again. True for one caller in `LOOK_SECONDS`."""
    global _looked_at
    now = time.monotonic()
    if not _full or now - _looked_at < LOOK_SECONDS:
        return False
    _looked_at = now
    return True
