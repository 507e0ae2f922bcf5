"""Strict YAML in, with the line of each value; plain YAML out.

Refuses whatever a person may read differently from a parser: duplicate keys, anchors and aliases, tags, merge keys,
several documents, and characters that do not show. Values without quotes are read as JSON reads them (`true`, `false`,
`null`, decimal numbers), and anything else is text: `no` and `on` are text, and so is `010`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from taskhub.lib.signs import code_point, invisible, name_of

MAX_DEPTH: Final = 32
"""Deepest nesting accepted."""
MAX_NODES: Final = 200_000
"""The most values accepted in one document."""
MAX_DIGITS: Final = 1_000
"""The most digits of a whole number."""

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser takes a twentieth of the time
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_MERGE: Final = "<<"


class YamlError(ValueError):
    """The text is not accepted as YAML. The message says why, and `line` where, counted from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its line, counted from 1: the line of its key, if it has one."""

    line: int
    value: str | int | float | bool | tuple[Node, ...] | dict[str, Node] | None

    def plain(self) -> Any:
        """The value as `json.loads` would give it."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def line_at(self, path: Sequence[str]) -> int:
        """The line of the value at `path` (names and indexes). If there is no such value, the line of the last value on
        the way."""
        below: Node | None = None
        if path and isinstance(self.value, dict):
            below = self.value.get(path[0])
        elif path and isinstance(self.value, tuple) and path[0].isdecimal():
            below = next(iter(self.value[int(path[0]) :][:1]), None)
        return self.line if below is None else below.line_at(path[1:])


def read(text: str) -> Node:
    """The one document in the text. Raises `YamlError`."""
    if unseen := invisible(text):
        at, sign = unseen[0]
        raise YamlError(
            f"It has {code_point(sign)} ({name_of(sign)}), which does not show. In double quotes it can be written as"
            f" {_escape(sign)}.",
            text.count("\n", 0, at) + 1,
        )
    try:
        return _Reader(text).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f"{error.context}: " if error.context else ""
        raise YamlError(f"This is no YAML: {context}{error.problem}.", mark.line + 1 if mark else 1) from None
    except yaml.YAMLError as error:
        raise YamlError(f"This is no YAML: {str(error).splitlines()[0]}.", 1) from None


def write(value: Any) -> str:
    """The value as YAML that `read` reads as the same value."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=math.inf
    )
    for _, sign in invisible(text):  # each is in double quotes (`_Dumper.text`)
        text = text.replace(sign, _escape(sign))
    return text


class _Reader:
    """Builds the nodes from the parser's events: nothing is expanded, and nothing recurses deeper than `MAX_DEPTH`."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=_LOADER)
        self._left = MAX_NODES

    def document(self) -> Node:
        next(self._events)  # the stream begins
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise YamlError("There is nothing in it.", 1)
        found = self._node(next(self._events), MAX_DEPTH)
        next(self._events)  # the document ends
        more = next(self._events)
        if not isinstance(more, yaml.StreamEndEvent):
            raise YamlError("One document is expected; a second one begins here.", _line(more))
        return found

    def _node(self, event: Any, depth: int) -> Node:
        line = _line(event)
        self._left -= 1
        if self._left < 0:
            raise YamlError(f"At most {MAX_NODES:,} values.", line)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise YamlError("Anchors and aliases (& and *) are not read: write the value out.", line)
        if event.tag is not None:
            raise YamlError("Tags (!) are not read.", line)
        if isinstance(event, yaml.ScalarEvent):
            return Node(line, _scalar(event, line))
        if depth == 0:
            raise YamlError(f"At most {MAX_DEPTH} levels.", line)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(line, self._items(depth - 1))
        return Node(line, self._pairs(depth - 1))

    def _items(self, depth: int) -> tuple[Node, ...]:
        found = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            found.append(self._node(event, depth))
        return tuple(found)

    def _pairs(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
                raise YamlError("A key is a plain text.", line)
            key = _storable(event.value, line)
            if key == _MERGE:
                raise YamlError("Merge keys (<<) are not read: write the values out.", line)
            if key in found:
                raise YamlError(f"{key[:60]!r} is given twice; the first is in line {found[key].line}.", line)
            found[key] = replace(self._node(next(self._events), depth), line=line)
        return found


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(event: Any, line: int) -> str | int | float | bool | None:
    text = _storable(event.value, line)
    if not event.implicit[0]:  # in quotes, or a block
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text)
    if _INTEGER.fullmatch(text) or not math.isfinite(number := float(text)):
        raise YamlError("The number is out of range.", line)
    return number


def _storable(text: str, line: int) -> str:
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise YamlError("It holds U+0000 or half of a surrogate pair, which cannot be stored.", line)
    return text


def _escape(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) <= 0xFFFF else f"\\U{ord(sign):08x}"


class _Dumper(yaml.SafeDumper):
    """Quotes every text that a reader of YAML 1.1 or `read` would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def text(self, text: str) -> yaml.ScalarNode:
        style = '"' if invisible(text) else "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-0123456789"))
