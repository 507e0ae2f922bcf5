"""What rules say of calls, in words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from taskhub.domain.rules.explained import Unknown

UNKNOWN: Final = {
    Unknown.ARGUMENTS: "the arguments",
    Unknown.TIME: "the time",
    Unknown.PROGRAM: "what its program calls itself",
    Unknown.SCOPES: "the scopes of its token",
}


def unknown_words(unknown: Collection[Unknown]) -> str:
    """What a verdict depends on."""
    found = [words for one, words in UNKNOWN.items() if one in unknown]
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
