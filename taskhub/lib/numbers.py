"""Reads whole numbers in URLs and in text that people wrote."""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 2**63 - 1
"""The highest id in the database: they are of type `bigint`."""
_DIGITS = re.compile(r"[0-9]{1,19}")


def whole(text: str, *, most: int = MOST) -> int | None:
    """The number that `text` writes in ASCII digits alone, from 0 to `most`; `None` for anything else. Never raises,
    unlike `int` after `isdigit`, which is true for "²": `int` refuses that, and numbers of more than 4,300 digits."""
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None
