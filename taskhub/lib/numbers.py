"""Numbers as people and addresses write them."""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 2**63 - 1
"""What a database id can be."""
_DIGITS = re.compile(r"[0-9]{1,19}")


def whole(text: str, *, most: int = MOST) -> int | None:
    """The whole number that `text` writes in ASCII digits alone, up to `most`; `None` for anything else. Never raises:
    `isdigit` is true of "²", and `int` refuses a number of more than 4,300 digits."""
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None
