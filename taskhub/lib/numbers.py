"""Reads whole numbers in URLs and in text that people wrote."""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 2**63 - 1
"""The highest id in the database: they are of type `bigint`."""
_DIGITS = re.compile(r"[0-9]{1,19}")


def whole(text: str, *, most: int = MOST) -> int | None:
    """The number from 0 to `most` that `text` writes in ASCII digits only; `None` for any other text. Never raises:
    `int` after `isdigit` would, for "²" and for more than 4,300 digits."""
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None
