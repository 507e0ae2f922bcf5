"""What differs between two versions of a tool's definition, as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

SHOWN: Final = 30
LONGEST: Final = 2_000


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; `before` or `after` is empty where there was none."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The first `SHOWN` differences, and how many there are beyond."""

    shown: tuple[Change, ...]
    more: int


def changes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Changes:
    """Every value of either definition that is not the same in the other, in the order of the newer one."""
    old, new = (dict(_leaves(one, ())) if one else {} for one in (before, after))
    found = [
        Change(path, old.get(path, ""), new.get(path, ""))
        for path in [*new, *(path for path in old if path not in new)]
        if old.get(path) != new.get(path)
    ]
    return Changes(tuple(found[:SHOWN]), max(0, len(found) - SHOWN))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(number)))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield " › ".join(path), text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
