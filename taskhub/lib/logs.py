"""The labels of log lines: which request, task and server a line is about."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from taskhub.lib.signs import spelled

_NOTHING: Mapping[str, str] = {}
_ABOUT: ContextVar[Mapping[str, str]] = ContextVar("about", default=_NOTHING)


class about:  # noqa: N801 - used as a function
    """`with about(labels)`: log lines written in the block, also by asyncio tasks started in it, have these labels in
    addition. A class, since every request uses it, and `contextlib.contextmanager` would double its cost."""

    __slots__ = ("_labels", "_token")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def __enter__(self) -> None:
        before = _ABOUT.get()
        self._token = _ABOUT.set({**before, **self._labels} if before else self._labels)

    def __exit__(self, *error: object) -> None:
        _ABOUT.reset(self._token)


def current() -> Mapping[str, str]:
    """The labels in force, to be handed to `carry` in another thread."""
    return _ABOUT.get()


def carry(labels: Mapping[str, str]) -> None:
    """Give the log lines of this thread the labels of the caller that it works for, in place of earlier ones."""
    _ABOUT.set(labels)


class TextLine(logging.Formatter):
    """Formats a record as a line of text. Line breaks and invisible characters in its message are spelled
    out (`lib.signs.spelled`). A traceback follows in lines of its own, each indented, so that the foreign text in an
    error never begins a line."""

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """The line without its traceback."""
        record.message = spelled(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        """The traceback, indented."""
        return _below(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the library's name
        """The stack, indented."""
        return _below(super().formatStack(stack_info))


def _below(text: str) -> str:
    # Each line by itself: `spelled` keeps no line break, and no other sign that a terminal takes for one.
    return "\n".join("  " + spelled(line) for line in text.split("\n"))


class WithoutQuery(logging.Filter):
    """Takes the query out of addresses in uvicorn's lines about WebSockets, because programs put tokens into the
    query."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Cut the query from the address in `record`, if there is one. Always true, so that every line is logged."""
        said = str(record.msg)  # uvicorn also logs exceptions, which are passed as they are
        if "WebSocket" in said and isinstance(record.args, tuple) and len(record.args) > 1:
            client, address, *rest = record.args
            record.args = (client, str(address).partition("?")[0], *rest)
        return True


class JsonLine(JsonFormatter):
    """Formats a record as a line of JSON: `time` (RFC 3339), `level`, `logger`, `message`, the `pid` of the process, a
    traceback in `exception`, and each label under its name. ASCII only, because a line with a lone surrogate cannot be
    written in UTF-8 and would be lost."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname)s %(name)s %(message)s %(process)d",
            rename_fields={
                "levelname": "level",
                "name": "logger",
                "process": "pid",
                "exc_info": "exception",
                "stack_info": "stack",
            },
            timestamp="time",
            # Left out: the request, which Django adds, and a coloured copy of the message, which uvicorn adds.
            reserved_attrs=[
                *logging.makeLogRecord({}).__dict__,
                *("message", "asctime", "request", "status_code", "color_message"),
            ],
        )

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Add the labels last, so that no field of the record itself can replace a label."""
        super().add_fields(log_data, record, message_dict)
        log_data.update(_ABOUT.get())
