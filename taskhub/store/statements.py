"""SQL statements by name: read once from the `statements.sql` of each subject (of tasks also `page_statements.sql`),
run prepared on Django's connection.

Each statement has a header with its parameters and its result:

    -- read: task_by_id(task bigint) -> TaskRecord | None
    SELECT {task_columns} FROM task_view AS v WHERE v.id = :task;

When the connection is lost, a `read` is run once more, a `write` only if Postgres reported that it was undone. Both are
prepared, with one plan for any values (`plan_cache_mode` in config/env.py). A `read fresh` is planned each time for its
values: for pages, and for optional conditions (`:tool IS NULL OR t.tool_name = :tool`), which Postgres then removes
from the plan.
`:task` is a parameter, sent as the type that the header gives it. `{task_columns}` is a
fragment of the same file: text in a comment that begins `/* fragment: task_columns`. A long header goes on in lines
that begin with `--` and four spaces or more.

The result is written as a Python type: a record or a plain type for one row, `| None` for one row or none, `list[...]`
for any number of rows, `tuple[...]` for several values or records in one row, `None` where nothing is read, `rowcount`
for the number of changed rows. A record's fields are the columns, in the same order; fields with a default may be
missing at the end. The code that uses a statement names the same result as a type, for mypy; a test compares both with
the database.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from taskhub.store import call
from taskhub.store.backend.base import Cursor

_PACKAGE: Final = Path(__file__).resolve().parents[1]

R = TypeVar("R")
T = TypeVar("T")
Convert = Callable[[Any], Any]
"""Converts the driver's value of a column that is not NULL to the value in the record."""

NOTHING: Final[Mapping[str, Convert]] = types.MappingProxyType({})

_BLOCK = re.compile(r"^(?=-- (?:read|write)\b)", re.MULTILINE)
_CONTINUED = re.compile(r"\n--\s{4,}")
_FRAGMENT = re.compile(r"^/\* fragment: ([a-z]\w*)\n(.*?)^\*/\n", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"-- (read|read fresh|write): ([a-z]\w*)\((.*)\) -> (.+)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_USE = re.compile(r"\{([a-z]\w*)\}")


@dataclass(frozen=True, slots=True)
class Named:
    """A statement as parsed from its file. `sql` is sent to Postgres, with parameters as `$1::bigint`, in the header's
    order."""

    file: str
    name: str
    kind: str
    params: Mapping[str, str]
    result: str
    sql: bytes


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a result needs, with its type in the record; `name` is empty if any name will do. `converted`: the
    code that uses the statement passes a function that converts its values."""

    name: str
    type: Any
    converted: bool = False


def parse(file: str, text: str) -> dict[str, Named]:
    """The statements in the text of a file, by name. Raises `ValueError` for text that is not in the right form."""
    fragments: dict[str, str] = {}
    for name, body in _FRAGMENT.findall(text):
        fragments[name] = _filled(file, body.strip(), fragments)
    preface, *blocks = _BLOCK.split(_CONTINUED.sub(" ", _FRAGMENT.sub("", text)))
    if _without_comments(preface):
        raise ValueError(f"{file}: there is SQL above the first header")
    found: dict[str, Named] = {}
    for block in blocks:
        head, _, rest = block.partition("\n")
        header = _HEADER.fullmatch(head)
        if header is None:
            raise ValueError(f"{file}: {head}: this is no header")
        body = _filled(file, _without_comments(rest).removesuffix(";"), fragments)
        statement = _named(file, header, body)
        if found.setdefault(statement.name, statement) is not statement:
            raise ValueError(f"{file}: there are two of the name {statement.name}")
    return found


def _filled(file: str, body: str, fragments: Mapping[str, str]) -> str:
    if unknown := set(_USE.findall(body)) - fragments.keys():
        raise ValueError(f"{file}: no fragment above is named {', '.join(sorted(unknown))}")
    return _USE.sub(lambda used: fragments[used[1]], body)


def _named(file: str, header: re.Match[str], body: str) -> Named:
    kind, name, listed, result = header.groups()
    params: dict[str, str] = {}
    for param in filter(None, map(str.strip, listed.split(","))):
        label, _, type_ = param.partition(" ")
        if label in params or not type_:
            raise ValueError(f"{file}: {name}: {param} is no parameter of its own with a type")
        params[label] = type_
    if differing := params.keys() ^ set(_PARAMETER.findall(body)):
        raise ValueError(f"{file}: {name}: not both in the header and below it: {', '.join(sorted(differing))}")
    places = {label: f"${n}::{type_}" for n, (label, type_) in enumerate(params.items(), 1)}
    sql = _PARAMETER.sub(lambda used: places[used[1]], body)
    return Named(file, name, kind, params, result, f"/* {name} */ {sql}".encode())


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--"))


def files() -> list[Path]:
    """The paths of all files of statements."""
    return sorted(_PACKAGE.glob("domain/*/*statements.sql"))


def _load() -> dict[str, Named]:
    found: dict[str, Named] = {}
    for path in files():
        where = path.relative_to(_PACKAGE).as_posix()
        for name, statement in parse(where, path.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"{found[name].file} and {where} both have a statement named {name}")
            found[name] = statement
    return found


STATEMENTS: Final = _load()
"""Every statement of all files, by name."""

USED: Final[dict[str, Statement[Any]]] = {}
"""Every statement that an imported module uses, by name."""


class Statement(Generic[R]):
    """A statement as a function that takes its parameters by name.

    A call raises `TypeError` for other parameters than the header's, `Unavailable` if the database cannot answer, and
    `psycopg.Error` as the database sent it."""

    __slots__ = ("_again", "_fetch", "_params", "_prepare", "_sql", "columns", "named")

    def __init__(self, name: str, result: str, columns: Sequence[Column], fetch: Callable[[Cursor], R], /) -> None:
        named = STATEMENTS.get(name)
        if named is None:
            raise LookupError(f"no statement is named {name}")
        if named.result != result:
            raise TypeError(f"{name} gives {named.result} by its header, and {result} where it is used")
        if name in USED:
            raise TypeError(f"{name} is used in two places: one of them can import it from the other")
        USED[name] = self
        self.named, self.columns = named, tuple(columns)
        self._sql, self._params, self._fetch = named.sql, tuple(named.params), fetch
        self._again, self._prepare = named.kind != "write", named.kind != "read fresh"

    def __call__(self, **values: object) -> R:
        """Run the statement with these parameters and return its result."""
        try:
            params = [values[name] for name in self._params]
        except KeyError as missing:
            raise TypeError(f"{self.named.name} wants {missing} too") from None
        if len(values) != len(params):
            raise TypeError(f"{self.named.name} takes no {', '.join(values.keys() - self.named.params.keys())}")
        return call.run(self._sql, params, self._fetch, again=self._again, prepare=self._prepare)


def none(name: str) -> Statement[None]:
    """A statement without a result: its rows, if there are any, are not read."""
    return Statement(name, "None", (), lambda cursor: None)


def rowcount(name: str) -> Statement[int]:
    """A statement that returns the number of rows that it changed."""
    return Statement(name, "rowcount", (), lambda cursor: cursor.rowcount)


def one(
    name: str, row: type[T], /, *, without: Sequence[str] = (), convert: Mapping[str, Convert] = NOTHING
) -> Statement[T]:
    """A statement that always returns one row. `row` is a record, a plain type for a single column, or a tuple of
    these. `convert` has functions for the values of some columns, by column; enums, JSON and arrays are converted by
    the types in the record. `without` lists the last fields of the record, with defaults, that are not columns."""
    columns, make = _shape(row, without, convert)

    def fetch(cursor: Cursor) -> T:
        (made,) = map(make, cursor.fetchall())
        return made

    return Statement(name, _spelled(row), columns, fetch)


def maybe(
    name: str, row: type[T], /, *, without: Sequence[str] = (), convert: Mapping[str, Convert] = NOTHING
) -> Statement[T | None]:
    """A statement that returns one row, or `None` for no row; see `one`. A single column that is NULL is `None` too."""
    columns, make = _shape(row, without, convert)
    plain_type = get_origin(row) is not tuple and not _is_record(row)

    def fetch(cursor: Cursor) -> T | None:
        found = cursor.fetchone()
        return None if found is None or (plain_type and found[0] is None) else make(found)

    return Statement(name, f"{_spelled(row)} | None", columns, fetch)


def many(
    name: str, row: type[T], /, *, without: Sequence[str] = (), convert: Mapping[str, Convert] = NOTHING
) -> Statement[list[T]]:
    """A statement that returns a list of any number of rows; see `one`."""
    columns, make = _shape(row, without, convert)
    return Statement(
        name, f"list[{_spelled(row)}]", columns, lambda cursor: [make(found) for found in cursor.fetchall()]
    )


def from_json(value: Any) -> Any:
    """The decoded value of a JSON column: the driver decodes it or returns text, depending on the column's type."""
    return json.loads(value) if isinstance(value, str) else value


def _spelled(row: Any) -> str:
    if get_origin(row) is tuple:
        return f"tuple[{', '.join(map(_spelled, get_args(row)))}]"
    return str(row.__name__)


def _shape(
    row: type[T], without: Sequence[str], convert: Mapping[str, Convert]
) -> tuple[list[Column], Callable[[Any], T]]:
    """The columns of `row`, and a function that makes a `row` from their values."""
    columns, build = _parts(row, without, convert)
    if strange := convert.keys() - {column.name for column in columns}:
        raise TypeError(f"{_spelled(row)} has no {', '.join(strange)}")
    todo = []
    for place, column in enumerate(columns):
        change = convert.get(column.name) or _converter(column.type)
        if change is not None:
            todo.append((place, partial(_unless_null, change) if _or_none(column.type) else change))
    if not todo:
        return columns, build

    def make(found: Any) -> T:
        values = list(found)
        for place, change in todo:
            values[place] = change(values[place])
        made: T = build(values)
        return made

    return columns, make


def _parts(row: Any, without: Sequence[str], convert: Mapping[str, Convert]) -> tuple[list[Column], Convert]:
    if get_origin(row) is tuple:
        inner: list[tuple[str, Any]] = [("", part) for part in get_args(row)]
        result: Callable[..., Any] = lambda *parts: parts  # noqa: E731 - makes a tuple of its parts
    elif _is_record(row):
        hints = get_type_hints(row)
        names = [field.name for field in fields(row)] if is_dataclass(row) else list(row._fields)
        if without:
            rest = names[-len(without) :]
            if rest != list(without):
                raise TypeError(f"{_spelled(row)} ends with {rest}, not with {list(without)}")
            names = names[: -len(without)]
        inner, result = [(name, hints[name]) for name in names], row
    else:
        return [Column("", row)], _first
    if not any(_is_record(part) and name not in convert for name, part in inner):
        flat = [Column(name, part, name in convert) for name, part in inner]
        return flat, lambda values: result(*values)
    columns: list[Column] = []
    makers: list[tuple[slice, Convert]] = []
    for name, part in inner:
        if _is_record(part) and name not in convert:
            below, build = _parts(part, (), convert)
        else:
            below, build = [Column(name, part, name in convert)], _first
        makers.append((slice(len(columns), len(columns) + len(below)), build))
        columns += below
    return columns, lambda values: result(*[build(values[place]) for place, build in makers])


def _is_record(row: Any) -> bool:
    return isinstance(row, type) and (is_dataclass(row) or hasattr(row, "_fields"))


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _unless_null(change: Convert, value: Any) -> Any:
    return None if value is None else change(value)


def _or_none(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType} and type(None) in get_args(hint)


def plain(hint: Any) -> Any:
    """The type `hint` without `| None`."""
    if not _or_none(hint):
        return hint
    (only,) = (part for part in get_args(hint) if part is not type(None))
    return only


def _converter(hint: Any) -> Convert | None:
    """The function that converts the driver's value of a column of this type; `None` if none is needed."""
    hint = plain(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {member.value: member for member in hint}.__getitem__
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        return _records(element) if _is_record(element) else tuple
    return from_json if get_origin(hint) is dict else None


def _records(record: Any) -> Convert:
    """A function that converts a JSON array of objects to a tuple of records, and NULL to an empty tuple."""
    todo = [(name, change) for name, hint in get_type_hints(record).items() if (change := _converter(hint))]

    def read(value: Any) -> tuple[Any, ...]:
        if not value:
            return ()
        found = from_json(value)
        for item in found:
            for name, change in todo:
                item[name] = change(item[name])
        return tuple(record(**item) for item in found)

    return read
