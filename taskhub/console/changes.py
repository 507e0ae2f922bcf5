"""Lists the differences between two versions of a tool's definition, for people to read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Final

SHOWN: Final = 100
LONGEST: Final = 2_000
"""How many characters of a long value are shown, beginning `_BEFORE` characters before its first difference."""
LINES: Final = 500
"""How many lines of each text are compared."""
LONGEST_LINE: Final = 500
"""How many characters of a differing line are shown."""
LONGEST_DEFAULT: Final = 100
"""How many characters of an argument's default are shown."""
_AROUND: Final = 2
"""How many equal lines are shown before and after those that differ."""
_BEFORE: Final = 80

_SPACE: Final = re.compile(r"\s|\\[nrtf]")
"""White space in JSON text, where some of it is written as escapes."""
_ODD_SPACE: Final = re.compile(r"[^\S ]")

_Path = tuple[tuple[str, str], ...]
"""The place of a value in JSON: for each level ("object", name) or ("array", index)."""
_Part = tuple[str, _Path]
"""A part of a definition: its kind, and its name, level by level if it is nested."""
_Place = tuple[str, _Path, _Path]
"""A part, and the path of a value within it."""

_PARTS: Final = {
    "title": "Title",
    "description": "Description",
    "inputSchema": "Argument",
    "outputSchema": "Output",
    "annotations": "Annotation",
    "_meta": "_meta",
}
_WHOLE: Final = {"Argument": "Arguments", "Output": "Output schema", "Annotation": "Annotations"}
"""By kind of part, the word for values that belong to no single part of the kind."""
_SCHEMAS: Final = {"inputSchema", "outputSchema"}
_MAPS: Final = {"annotations", "_meta"}


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs, as text. `before` or `after` is empty if that definition does not have the value;
    `missing` is the text that is shown in place of the empty one."""

    path: str
    before: str
    after: str
    missing: str = "nothing"

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        return "changed" if self.before and self.after else "added" if self.after else "removed"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a definition, such as an argument, in which two definitions differ."""

    what: str
    """What the part is: "Description", "Argument", …"""
    name: str
    """The part's name, if a tool can have several of its kind. It is text of the server."""
    kind: str
    """`added`, `removed` or `changed`."""
    changes: tuple[Change, ...]
    """The differences. The path of each is within the part, and empty for the part itself."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The first `SHOWN` differences, grouped by part; `more` is the number of further ones. The order of parts in a
    definition makes no difference."""

    parts: tuple[Part, ...]
    more: int


def changes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Changes:
    """The values that differ between two definitions, or are missing in one, in the order of the newer definition.
    Whether an argument is required counts as a value of that argument, and a list of plain values, such as the choices
    of an `enum`, as one value."""
    old, new = (dict(_told(one)) if one else {} for one in (before, after))
    places = [*new, *(place for place in old if place not in new)]
    found = [place for place in places if old.get(place) != new.get(place)]
    by_part: dict[_Part, list[_Place]] = {}
    for place in found[:SHOWN]:
        by_part.setdefault(place[:2], []).append(place)
    had, has = ({place[:2] for place in one} for one in (old, new))
    parts = tuple(
        Part(
            part[0] if part[1] else _WHOLE.get(part[0], part[0]),
            _dotted(part[1]),
            "added" if part not in had else "removed" if part not in has else "changed",
            tuple(_change(place[2], old.get(place, ""), new.get(place, "")) for place in differing),
        )
        for part, differing in by_part.items()
    )
    return Changes(parts, max(0, len(found) - SHOWN))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison of two texts. `kind` is `same`, `removed`, `added`, or `left out`, which stands for any
    number of equal lines."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class LineChanges:
    """The lines in which two texts differ, with a few around them. `cut`: whether the texts have lines that were not
    compared."""

    lines: tuple[Line, ...]
    cut: bool


def line_changes(before: str, after: str) -> LineChanges:
    """Compare two texts line by line."""
    old, new = (text.split("\n") if text else [] for text in (before, after))
    cut = max(len(old), len(new)) > LINES
    old, new = old[:LINES], new[:LINES]
    found: list[Line] = []
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_AROUND):
        if group[0][1] or found:
            found.append(Line("left out", ""))
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                found += [Line("same", _line(line)) for line in old[i1:i2]]
            else:
                found += [Line("removed", _line(line)) for line in old[i1:i2]]
                found += [Line("added", _line(line)) for line in new[j1:j2]]
    return LineChanges(tuple(found), cut)


def _line(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"


def of_arguments(before: dict[str, Any], after: dict[str, Any], schema: Any = None) -> Changes:
    """The values that differ between the arguments of two calls, a part for each argument. `schema` is the schema of
    the tool's arguments: for an argument that was not given, its default is named."""
    old, new = (
        {(name, path): text for name, value in one.items() for path, text in _leaves(value, ())}
        for one in (before, after)
    )
    places = [*new, *(place for place in old if place not in new)]
    found = [place for place in places if old.get(place) != new.get(place)]
    by_name: dict[str, list[Change]] = {}
    for name, path in found[:SHOWN]:
        place = (name, path)
        change = _change(path, old.get(place, ""), new.get(place, ""))
        if not (name in before and name in after):
            change = replace(change, missing=_not_given(schema, name))
        by_name.setdefault(name, []).append(change)
    parts = tuple(
        Part(
            "Argument",
            name,
            "added" if name not in before else "removed" if name not in after else "changed",
            tuple(differing),
        )
        for name, differing in by_name.items()
    )
    return Changes(parts, max(0, len(found) - SHOWN))


def _not_given(schema: Any, name: str) -> str:
    """The text that says that an argument was not given, with the default that the schema names, if any."""
    listed = schema.get("properties") if isinstance(schema, dict) else None
    rule = listed.get(name) if isinstance(listed, dict) else None
    if not isinstance(rule, dict) or "default" not in rule:
        return "not given"
    text = json.dumps(rule["default"], ensure_ascii=False)
    default = f"{text[:LONGEST_DEFAULT]}…" if len(text) > LONGEST_DEFAULT else _part(text, 0, quoted=False)
    return f"not given (default {default})"


def _told(definition: dict[str, Any]) -> Iterator[tuple[_Place, str]]:
    """All values of a definition, each as JSON text, with the value's part and its path within the part."""
    for key, value in definition.items():
        what = _PARTS.get(key, "")
        if key in _SCHEMAS and isinstance(value, dict):
            yield from _schema(value, what, ())
        elif key in _MAPS and isinstance(value, dict) and value:
            for name, inner in value.items():
                yield from (((what, (("object", name),), path), text) for path, text in _leaves(inner, ()))
        else:
            names: _Path = () if what else (("object", key),)
            yield from (((what or "Member", names, path), text) for path, text in _leaves(value, ()))


def _schema(schema: dict[str, Any], what: str, names: _Path) -> Iterator[tuple[_Place, str]]:
    """As `_told`, for a JSON schema, whose properties are parts of their own."""
    properties, required = schema.get("properties"), schema.get("required")
    inner = properties if isinstance(properties, dict) else {}
    flags = _flags(required, inner)
    if not schema:
        yield (what, names, ()), "{}"
    for key, value in schema.items():
        if key == "properties" and inner:
            for name, rule in inner.items():
                below = (*names, ("object", name))
                yield (what, below, (("flag", "required"),)), "yes" if name in flags else "no"
                if isinstance(rule, dict):
                    yield from _schema(rule, what, below)
                else:
                    yield from (((what, below, path), text) for path, text in _leaves(rule, ()))
        elif key == "items" and isinstance(value, dict):
            yield from _schema(value, what, (*names, ("array", "")))
        elif key == "required" and flags:
            continue
        elif isinstance(value, list) and value and not any(isinstance(one, (dict, list)) for one in value):
            yield (what, names, (("object", key),)), json.dumps(value, ensure_ascii=False)
        else:
            yield from (((what, names, path), text) for path, text in _leaves(value, (("object", key),)))


def _flags(required: Any, properties: dict[str, Any]) -> set[str]:
    """The required properties, if the schema names nothing else as required; else none."""
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        return set()
    return set(required) if len(set(required)) == len(required) else set()


def _dotted(names: _Path) -> str:
    """The name of a nested argument as people write it: `files[].path`."""
    return "".join(f".{name}" if kind == "object" else "[]" for kind, name in names).removeprefix(".")


def _leaves(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Each scalar or empty container, with its path. Values are JSON text, in which the string "1" and the number 1
    differ."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, ("object", name)))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, ("array", str(number))))
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _change(path: _Path, before: str, after: str) -> Change:
    quoted = _SPACE.sub("", before) == _SPACE.sub("", after)
    if quoted:  # special spaces look like ordinary ones
        before, after = (_ODD_SPACE.sub(lambda found: json.dumps(found[0])[1:-1], text) for text in (before, after))
    start = max(0, _differs_at(before, after) - _BEFORE) if max(len(before), len(after)) > LONGEST else 0
    words = [f"[{name}]" if kind == "array" else name for kind, name in path]
    return Change(" › ".join(words), _part(before, start, quoted=quoted), _part(after, start, quoted=quoted))


def _differs_at(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _part(text: str, start: int, *, quoted: bool) -> str:
    """What is shown of a value: `LONGEST` characters from `start`, with an ellipsis where text is cut off. `quoted`: a
    string keeps its quotes."""
    if not start and len(text) <= LONGEST and not quoted:
        return text[1:-1] if _plain(text) else text
    return f"{'…' if start else ''}{text[start : start + LONGEST]}{'…' if len(text) > start + LONGEST else ''}"


def _plain(text: str) -> bool:
    """Whether the JSON text is a string that, without its quotes, cannot be mistaken for another type of value."""
    inner = text[1:-1]
    return text[:1] == '"' and "\\" not in inner and inner[:1].isalpha() and inner not in ("true", "false", "null")
