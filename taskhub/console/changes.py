"""Lists the differences between two versions of a tool's definition, for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

SHOWN: Final = 100
LONGEST: Final = 2_000
"""Characters of a long value that are shown, from `_BEFORE` characters before its first difference."""
_BEFORE: Final = 80

_Path = tuple[tuple[str, str], ...]
"""The place of a value in JSON: for each level ("object", name) or ("array", index)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs, as text; `before` or `after` is empty if that definition does not have the value."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The first `SHOWN` differences, and in `more` the number of further ones. Equal definitions have none."""

    shown: tuple[Change, ...]
    more: int


def changes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Changes:
    """The values that differ between two definitions, or are missing in one, in the order of the newer definition."""
    old, new = (dict(_leaves(one, ())) if one else {} for one in (before, after))
    found = [path for path in [*new, *(path for path in old if path not in new)] if old.get(path) != new.get(path)]
    return Changes(tuple(_change(path, old, new) for path in found[:SHOWN]), max(0, len(found) - SHOWN))


def _leaves(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Each scalar or empty container with its path, as JSON, so that the string "1" and the number 1 differ."""
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
    """The part of a value that is shown: `LONGEST` characters from `start`, with an ellipsis where text is cut off."""
    if not start and len(text) <= LONGEST:
        return text[1:-1] if _plain(text) else text
    return f"{'…' if start else ''}{text[start : start + LONGEST]}{'…' if len(text) > start + LONGEST else ''}"


def _plain(text: str) -> bool:
    """Whether the JSON text is a string that, without its quotes, cannot be mistaken for another type of value."""
    inner = text[1:-1]
    return text[:1] == '"' and "\\" not in inner and inner[:1].isalpha() and inner not in ("true", "false", "null")
