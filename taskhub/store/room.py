"""Whether the database accepts writes, as far as this process knows: its disk may be full, or it may be read-only.

Postgres cannot be asked how much room it has, so a write that found none is noted here. To find out whether there is
room again, a read is made that needs a temporary file of a megabyte (`domain.health.checks.disk_is_full`).
"""

from __future__ import annotations

import logging
import time
from typing import Final

logger = logging.getLogger(__name__)

FULL: Final = "The database's disk is full: nothing new can be stored."
RETRY_SECONDS: Final = 10
"""The `Retry-After` of a write that was refused."""
LOOK_SECONDS: Final = 5.0
"""The least time between two checks whether there is room again."""

ONLY_READS: Final = "The database only reads: nothing new can be stored."
"""A standby, or one that was told so (`default_transaction_read_only`), as providers do when a disk is full."""

_full = False
_only_reads = False
_looked_at = float("-inf")


def note_full() -> None:
    """Something could not be stored."""
    global _full
    if not _full:
        logger.error("%s Reads go on.", FULL)
    _full = True


def note_room() -> None:
    """A megabyte could be written."""
    global _full
    if _full:
        logger.warning("The database's disk has room again.")
    _full = False


def note_only_reads() -> None:
    """A write was refused, or a session began that would refuse it."""
    global _only_reads
    if not _only_reads:
        logger.error("%s Reads go on.", ONLY_READS)
    _only_reads = True


def note_writes() -> None:
    """A session began that accepts writes."""
    global _only_reads
    if _only_reads:
        logger.warning("The database takes what is written again.")
    _only_reads = False


def full() -> bool:
    """Whether the disk was full when that was last noted."""
    return _full


def due() -> bool:
    """Whether the disk was full and it is time to check again. True for one caller in `LOOK_SECONDS`."""
    global _looked_at
    now = time.monotonic()
    if not _full or now - _looked_at < LOOK_SECONDS:
        return False
    _looked_at = now
    return True
