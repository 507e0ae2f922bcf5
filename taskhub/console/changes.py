"""The differences between two versions of a tool's definition, for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

SHOWN: Final = 100
LONGEST: Final = 2_000
"""Characters of a value that are shown, beginning a little before its first difference."""
_BEFORE: Final = 80

_Path = tuple[tuple[str, str], ...]
"""For each step: whether it leads into an object or an array, and the name or number there."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; `before` or `after` is empty where there was none."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The first `SHOWN` differences, and how many there are beyond. Without any, the versions are equal."""

    shown: tuple[Change, ...]
    more: int


def changes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Changes:
    """Every value that differs between the definitions or is missing in one, in the order of the newer one."""
    old, new = (dict(_leaves(one, ())) if one else {} for one in (before, after))
    found = [path for path in [*new, *(path for path in old if path not in new)] if old.get(path) != new.get(path)]
    return Changes(tuple(_change(path, old, new) for path in found[:SHOWN]), max(0, len(found) - SHOWN))


def _leaves(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Each value that is no filled object or array, as JSON, so that a text and a number are never the same."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, ("object", name)))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, ("array", str(number))))
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _change(path: _Path, old: dict[_Path, str], new: dict[_Path, str]) -> Change:
    before, after = old.get(path, ""), new.get(path, "")
    start = max(0, _differs_at(before, after) - _BEFORE) if max(len(before), len(after)) > LONGEST else 0
    words = [name if kind == "object" else f"[{name}]" for kind, name in path]
    return Change(" › ".join(words), _part(before, start), _part(after, start))


def _differs_at(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _part(text: str, start: int) -> str:
    """The part of a value that is shown: from `start` on, with dots where it is cut."""
    if not start and len(text) <= LONGEST:
        return text[1:-1] if _plain(text) else text
    return f"{'…' if start else ''}{text[start : start + LONGEST]}{'…' if len(text) > start + LONGEST else ''}"


def _plain(text: str) -> bool:
    """Whether the JSON is a string that, without its quotes, cannot be taken for another value."""
    inner = text[1:-1]
    return text[:1] == '"' and "\\" not in inner and inner[:1].isalpha() and inner not in ("true", "false", "null")
