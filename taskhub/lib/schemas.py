"""Checks a value against a JSON Schema from an untrusted server.

Such a schema can be slow by design: patterns that backtrack, references that double at every step, alternatives that
recurse. Even with bounded patterns, a validator runs for minutes on 200 bytes against such alternatives, and holds the
GIL all that time. So this process makes a check only if sizes alone show that it is cheap. Other checks are made in a
separate process (`lib.schema_process`), which is killed at a timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from taskhub.lib import jsonx, schema_process
from taskhub.lib.schema_process import CHECK_SECONDS, FITS, HEAD, MISFIT, short

PLAIN_COST: Final = 2_000_000
"""The highest cost of a check that is made in this process: the number of parts of the schema, references followed,
times the bytes of the value. Such a check takes milliseconds."""
MAX_KEPT: Final = 200
"""The most compiled schemas kept for a server, and the most of its schemas that are remembered as uncheckable."""
MAX_NESTING: Final = 64

_SCHEMA: Final = frozenset({"additionalProperties", "items", "not", "propertyNames"})
_SCHEMAS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_TABLES: Final = ("$defs", "definitions")
_VALUES: Final = frozenset({"enum", "const", "required", "type"})
_CHEAP: Final = frozenset(
    {
        *_TABLES,  # counted where they are referred to
        *("title", "description", "default", "examples", "deprecated", "format", "$comment", "$schema"),
        *("readOnly", "writeOnly", "discriminator"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
_UNKNOWN: Final = sys.maxsize


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. `problem` says what does not fit, and where; `unchecked` says why the value could not be
    checked. The value fits if both are empty."""

    problem: str = ""
    unchecked: str = ""


class Checker:
    """Checks values against the schemas of one server. Each server has its own checking process, which makes one check
    at a time, so that slow checks delay only their own server. For one event loop. Call `close` at the end."""

    def __init__(self) -> None:
        self._plain: OrderedDict[bytes, tuple[int, Any]] = OrderedDict()
        self._given_up: OrderedDict[bytes, str] = OrderedDict()
        self._turn = asyncio.Lock()
        self._hands = threading.Lock()
        """Held by the thread that talks to the other process; the thread may outlive the task that waits for it."""
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    async def check(self, schema: Any, value: Any) -> Checked:
        """Check `value` against `schema`. Never raises, whatever they contain. If a check could not be made, for
        example for lack of time, later checks against the schema are not made either, unless they are cheap."""
        try:
            text, body = jsonx.encode(schema), jsonx.encode(value)
        except (ValueError, TypeError, RecursionError) as error:
            return Checked(unchecked=short(str(error)))
        mark = hashlib.sha256(text).digest()
        cost, validator = self._compiled(mark, schema)
        # The other process checks a misfit again and makes the message, which can cost more than the check.
        if validator is not None and cost * len(body) <= PLAIN_COST and validator.is_valid(value):
            return Checked()
        if (why := self._given_up.get(mark)) is not None:
            return Checked(unchecked=why)
        async with self._turn:
            checked = await asyncio.to_thread(self._checked_aside, text, body)
        if checked.unchecked and not self._closed:
            _keep(self._given_up, mark, checked.unchecked)
        return checked

    def close(self) -> None:
        """End the checking process. Later checks that need it return `unchecked`."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        with self._hands:
            self._end()

    def _compiled(self, mark: bytes, schema: Any) -> tuple[int, Any]:
        if mark not in self._plain:
            cost = plain_cost(schema)
            made = None
            if cost <= PLAIN_COST:
                with contextlib.suppress(ValueError):  # the checking process gives the reason
                    made = schema_process.validator(schema)
            _keep(self._plain, mark, (cost, made))
        return self._plain[mark]

    def _checked_aside(self, schema: bytes, value: bytes) -> Checked:
        end = time.monotonic() + CHECK_SECONDS
        with self._hands:
            try:
                said = self._asked(schema, value, end)
                words = "" if said in (b"", FITS) else self._line(end)
            except (OSError, ValueError) as error:
                self._end()
                return Checked(unchecked=short(f"the check failed: {error}"))
            if said == FITS:
                return Checked()
            if not words:
                self._end()  # the process still checks, or has run out of time or memory
            if said == MISFIT:
                return Checked(problem=words or "it does not fit")
            return Checked(unchecked=words or f"the check takes more than {CHECK_SECONDS:.0f} s, or too much memory")

    def _asked(self, schema: bytes, value: bytes, end: float) -> bytes:
        """The first byte of the answer: `FITS`, `MISFIT` or `UNCHECKED`; empty if none comes before `end`."""
        fresh = self._process is None
        try:
            self._send(schema, value)
            said = self._heard(end)
        except BrokenPipeError:
            said = b""
        if not said and not fresh and time.monotonic() < end:  # the process had ended, idle for too long
            self._end()
            self._send(schema, value)
            said = self._heard(end)
        return said

    def _send(self, schema: bytes, value: bytes) -> None:
        if self._closed:
            raise OSError("the server is being disconnected")
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-I", str(Path(schema_process.__file__).resolve())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
        pipe = _open(self._process.stdin)
        # The process reads everything before it checks, so writing never waits for a check.
        pipe.write(HEAD.pack(len(schema), len(value)))
        pipe.write(schema)
        pipe.write(value)
        pipe.flush()

    def _heard(self, end: float) -> bytes:
        """The next byte from the checking process; empty if none comes before `end`, or its output has ended."""
        assert self._process is not None
        number = _open(self._process.stdout).fileno()
        waiting = select.poll()  # not select(): descriptors may be beyond 1,024
        waiting.register(number, select.POLLIN)
        return os.read(number, 1) if waiting.poll(max(0.0, end - time.monotonic()) * 1000) else b""

    def _line(self, end: float) -> str:
        found = b""
        while byte := self._heard(end):
            if byte == b"\n":
                return found.decode("utf-8", "replace")
            found += byte
        return ""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    _open(pipe).close()
            process.wait()


def surely_fits(schema: Any, value: Any) -> bool:
    """Whether a cheap check shows that `value` fits; `False` also if the check would not be cheap. Never raises."""
    try:
        body = jsonx.encode(value)
        if plain_cost(schema) * len(body) > PLAIN_COST:
            return False
        return bool(schema_process.validator(schema).is_valid(value))
    except (ValueError, TypeError, RecursionError):
        return False


def plain_cost(schema: Any) -> int:
    """The most parts of the schema that one part of a value is checked against, references followed. At least
    `_UNKNOWN` if the cost depends on more than sizes: patterns, recursion, keywords that are not known here."""
    tables = schema if isinstance(schema, dict) else {}
    costs = _Costs(tables)
    found = costs.of(schema, 0)
    for table in (tables.get(word) for word in _TABLES):
        if isinstance(table, dict):  # definitions that nothing refers to are compiled too
            found += sum(part for part in (costs.of(entry, 1) for entry in table.values()) if part >= _UNKNOWN)
    return found


class _Costs:
    def __init__(self, tables: dict[str, Any]) -> None:
        self._tables = tables
        self._known: dict[str, int] = {}

    def of(self, part: Any, depth: int) -> int:
        if isinstance(part, bool):
            return 1
        if not isinstance(part, dict) or depth > MAX_NESTING:
            return _UNKNOWN
        return 1 + sum(self._of_word(word, inner, depth) for word, inner in part.items())

    def _of_word(self, word: str, inner: Any, depth: int) -> int:
        if word in _CHEAP or word.startswith("x-"):  # such as FastMCP's x-fastmcp-wrap-result: validators ignore them
            return 1
        if word == "$ref":
            return self._of_reference(inner)
        if word in _VALUES:
            return len(jsonx.encode(inner))
        if word in _SCHEMA:
            return self.of(inner, depth + 1)
        if word in _SCHEMAS and isinstance(inner, list):
            return sum(self.of(part, depth + 1) for part in inner)
        if word == "properties" and isinstance(inner, dict):
            return sum(self.of(part, depth + 1) for part in inner.values())
        return _UNKNOWN

    def _of_reference(self, reference: Any) -> int:
        parts = reference.split("/") if isinstance(reference, str) else []
        if len(parts) != 3 or parts[0] != "#" or parts[1] not in _TABLES:
            return _UNKNOWN
        if reference not in self._known:
            self._known[reference] = _UNKNOWN  # for a reference that leads back to itself
            table = self._tables.get(parts[1])
            self._known[reference] = self.of(table.get(parts[2]) if isinstance(table, dict) else None, 1)
        return self._known[reference]


def _keep(table: OrderedDict[bytes, Any], mark: bytes, what: Any) -> None:
    table[mark] = what
    while len(table) > MAX_KEPT:
        table.popitem(last=False)


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
