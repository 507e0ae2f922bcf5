"""The file of a configuration: YAML with the parts `rules`, `servers`, `people` and `clients`.

Every refusal is an `Invalid` whose data has the `line`, counted from 1. The fields of each record are those of its
dataclass; a rule is read by `core.rules`, so that a field which is added there needs no line here.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Final, Generic, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from taskhub.core.errors import Invalid
from taskhub.core.policy import Policy
from taskhub.core.rules import Rule, from_json, to_json
from taskhub.domain.configuration.records import (
    FORMAT,
    ClientConfig,
    Configuration,
    Given,
    OAuthConfig,
    PersonConfig,
    ServerConfig,
    Spec,
)
from taskhub.domain.configuration.references import Lookup, References, secret_given, spec_given, value_given
from taskhub.lib import yamlx
from taskhub.lib.yamlx import Node

MAX_FILE: Final = 4_194_304
"""The most characters of the file."""

PARTS: Final = ("rules", "servers", "people", "clients")
_CALLED: Final = {str: "text", int: "a whole number", bool: "true or false"}
_PREFIX: Final = "policy_"
"""A prefix that the file leaves out of the names of a policy's fields: it has `mode` for `policy_mode`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A record of the file, with the node of the file that it was read from, which knows the lines."""

    record: T
    node: Node

    def line(self, field: str = "") -> int:
        """The line of a field, by its path such as `tools.deploy.run_seconds`; the record's line if the file lacks the
        field."""
        return self.node.line_at(_path(self.node, field))

    def says(self, field: str) -> bool:
        """Whether the file has this field of the record."""
        return isinstance(self.node.value, dict) and field in self.node.value


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says. A part is `None` if the file leaves it out."""

    rules: Item[tuple[Rule, ...]] | None = None
    servers: Item[tuple[Item[ServerConfig], ...]] | None = None
    people: Item[tuple[Item[PersonConfig], ...]] | None = None
    clients: Item[tuple[Item[ClientConfig], ...]] | None = None


def read_document(text: str, lookup: Lookup) -> Document:
    """Read the text of a file. `lookup` returns the values of references. Raises `Invalid`, which has the line."""
    if len(text) > MAX_FILE:
        wrong(1, f"The file is larger than {MAX_FILE:,} characters.")
    try:
        node = yamlx.read(text)
    except yamlx.YamlError as error:
        wrong(error.line, str(error))
    found = _mapping(node, f"A file of configuration has format: {FORMAT} and parts: {', '.join(PARTS)}.")
    for name, part in found.items():
        if name not in ("format", *PARTS):
            wrong(part.line, f"There is no part {name[:60]!r}. The parts are {', '.join(PARTS)}.")
    if "format" not in found:
        wrong(node.line, f"The file does not say its format. Write format: {FORMAT} in it.")
    if type(found["format"].value) is not int or found["format"].value != FORMAT:
        wrong(found["format"].line, f"This release reads format: {FORMAT} alone.")
    rules, servers, people, clients = (found.get(part) for part in PARTS)
    return Document(
        rules=None if rules is None else Item(_rules(rules), rules),
        servers=None if servers is None else _items(servers, ServerConfig, lookup, lambda server: server.name),
        people=None if people is None else _items(people, PersonConfig, lookup, lambda one: one.username.lower()),
        clients=None if clients is None else _items(clients, ClientConfig, lookup, lambda client: client.key),
    )


def write_document(configuration: Configuration, references: References, *, tenant: str) -> str:
    """The text of the file for this configuration. `references`: the object that made the references in the
    configuration; the file begins with their names."""
    head = [f"# The configuration of TaskHub, tenant {tenant}. It has no secrets: references stand for them."]
    if references.names:
        head += [
            "# Whoever applies it sets these variables of the environment:",
            *(f"#   {name}" for name in references.names),
        ]
    parts: dict[str, Any] = {
        "format": FORMAT,
        "rules": [to_json(rule) for rule in configuration.rules],
        "servers": [_written(server) for server in configuration.servers],
        "people": [_written(person) for person in configuration.people],
        "clients": [_written(client) for client in configuration.clients],
    }
    return "\n".join([*head, *(yamlx.write({name: part}).rstrip("\n") for name, part in parts.items())]) + "\n"


def wrong(line: int, message: str) -> NoReturn:
    """Raise `Invalid` for this line of the file."""
    raise Invalid(message, line=line)


def refuse_rule(node: Node, error: Invalid) -> NoReturn:
    """Raise `error`, which is about a list of rules, again with the line of the field that it names, such as
    `rules.2.when`. `node` is the list in the file."""
    path = str(error.data.get("field", "")).split(".")[1:]
    place = f"rule {int(path[0]) + 1}: " if path else ""
    named = f"{path[1]}: " if len(path) > 1 else ""
    wrong(node.line_at(path), f"{place}{named}{error.message}")


def written_name(field: str) -> str:
    """The name that a file has for a field."""
    return field.removeprefix(_PREFIX)


def _rules(node: Node) -> tuple[Rule, ...]:
    found = []
    for place, item in enumerate(_list(node, "rules")):
        try:
            found.append(from_json(item.plain(), f"rules.{place}"))
        except Invalid as error:
            refuse_rule(node, error)
    return tuple(found)


def _items(node: Node, kind: type[T], lookup: Lookup, key: Callable[[T], Any]) -> Item[tuple[Item[T], ...]]:
    found: list[Item[T]] = []
    lines: dict[Any, int] = {}
    for item in _list(node, "them"):
        record = _Records(lookup).record(kind, item)
        if key(record) in lines:
            wrong(item.line, f"This one stands in line {lines[key(record)]} already.")
        lines[key(record)] = item.line
        found.append(Item(record, item))
    return Item(tuple(found), node)


def _list(node: Node, what: str) -> tuple[Node, ...]:
    if not isinstance(node.value, tuple):
        wrong(node.line, f"A list of {what} is expected; [] is an empty one.")
    return node.value


def _mapping(node: Node, expected: str) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        wrong(node.line, expected)
    return node.value


class _Records:
    """Reads records by the types of their fields."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def record(self, kind: type[T], node: Node) -> T:
        """The record of this type that the node describes. Raises `Invalid`, which has the line."""
        assert is_dataclass(kind)
        known = {written_name(part.name): part for part in fields(kind)}
        given = _mapping(node, f"Expected {', '.join(known)}.")
        for name, value in given.items():
            if name not in known:
                wrong(value.line, f"There is no {name[:60]!r} here. There are {', '.join(known)}.")
        for name, part in known.items():
            if name not in given and _needed(part):
                wrong(node.line, f"It needs {name}.")
        hints = _hints(kind)
        values = {known[name].name: self._value(hints[known[name].name], value, name) for name, value in given.items()}
        record: T = kind(**values)
        return record

    def _value(self, hint: Any, node: Node, name: str) -> Any:
        """The value of a field of this type. `name` names the field in errors."""
        if get_origin(hint) in (Union, types.UnionType):
            if node.value is None:
                return None
            (hint,) = (inner for inner in get_args(hint) if inner is not type(None))
        if hint in _CALLED:
            if type(node.value) is not hint:
                quotes = " Put it in quotes." if hint is str and not isinstance(node.value, (tuple, dict)) else ""
                wrong(node.line, f"{name}: Give {_CALLED[hint]}.{quotes}")
            return node.value
        if hint in (Given, Spec):
            read = spec_given if hint is Spec else secret_given
            return self._given(lambda: read(self._value(str, node, name), self._lookup), node, name)
        if hint in (OAuthConfig, Policy):
            return self.record(hint, node)
        return self._several(hint, node, name)

    def _several(self, hint: Any, node: Node, name: str) -> Any:
        """The value of a field that contains further values. `hint` is `Mapping[str, X]`, `dict[str, Any]`, `list[X]`
        or `tuple[X, ...]`."""
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (list, tuple):
            return origin(self._value(inner[0], item, name) for item in _list(node, name))
        given = _mapping(node, f"{name}: Give names with values; {{}} for none.")
        if inner[1] is Any:
            return node.plain()
        if inner[1] is Given:
            return {key: self._pair(key, value, f"{name}: {key}") for key, value in given.items()}
        return {key: self._value(inner[1], value, f"{name}: {key}") for key, value in given.items()}

    def _pair(self, key: str, node: Node, name: str) -> Given:
        return self._given(lambda: value_given(key, self._value(str, node, name), self._lookup), node, name)

    def _given(self, read: Callable[[], T], node: Node, name: str) -> T:
        try:
            return read()
        except Invalid as error:
            if "line" in error.data:
                raise
            wrong(node.line, f"{name}: {error.message}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _needed(part: Field[Any]) -> bool:
    return part.default is MISSING and part.default_factory is MISSING


def _written(record: Any) -> dict[str, Any]:
    """The fields of a record, by their names in the file, without those that have their default."""
    found = {}
    for part in fields(record):
        value = getattr(record, part.name)
        default = part.default if part.default_factory is MISSING else part.default_factory()
        if value != default:
            found[written_name(part.name)] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Given):
        return value.text
    if is_dataclass(value):
        return _written(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _path(node: Node, field: str) -> list[str]:
    """The path in the file to the field that an error names. The error's name may join a field and its part, such as
    `companion_tool` for `companion.tool`, or leave out a unit, such as `patience` for `patience_seconds`."""
    found: list[str] = []
    parts = [written_name(name) for name in field.split(".") if name]
    while parts and isinstance(node.value, dict):
        name = parts.pop(0)
        if name not in node.value:
            whole = next((key for key in node.value if key.startswith(f"{name}_")), "")
            part = next((key for key in node.value if name.startswith(f"{key}_")), "")
            parts.insert(0, name[len(part) + 1 :] if part else "")
            name = whole or part or name
        found.append(name)
        if name not in node.value:
            break
        node = node.value[name]
    return found
