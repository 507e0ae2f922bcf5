"""Replaces unreadable replies by errors, so that their calls need not wait for a timeout.

The SDK drops everything that is not a JSON-RPC message. That is right for text that servers print between their
answers. A broken answer is replaced by an error for the request that it answers.
"""

from __future__ import annotations

import json
from typing import Any, Final

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

UNREADABLE: Final = "The tool's server failed: it answered with a line that is no JSON-RPC message"
ANOTHERS: Final = "The tool's server failed: it answered a request that nobody made"

TOO_LONG: Final = "The tool's server failed: it answered with a line of more than %d bytes"

_BEGINNING: Final = 128
"""How many characters are parsed of a line that is nested too deep: its id is usually at the beginning."""


class TooLongError(Exception):
    """A line of a command is longer than a message may be. `beginning`: the part of the line that was kept."""

    def __init__(self, beginning: str, most: int) -> None:
        super().__init__(f"a line of more than {most} bytes")
        self.beginning = beginning
        self.most = most


class Waiting:
    """The requests of one connection that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()
        self._newest = -1
        """The highest id so far. The SDK numbers its requests, so every id up to this one has been used."""

    def sent(self, message: Any) -> None:
        """Note a request, which waits for an answer, or a cancellation, after which its request does not wait any
        more."""
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
            if isinstance(message.id, int):
                self._newest = max(self._newest, message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId", ""))

    def received(self, item: SessionMessage | Exception) -> list[SessionMessage]:
        """The errors that replace the incoming `item`; empty for a readable message, and for text that is not an
        answer."""
        if not isinstance(item, SessionMessage):
            why = TOO_LONG % item.most if isinstance(item, TooLongError) else UNREADABLE
            error = types.ErrorData(code=types.INTERNAL_ERROR, message=why)
            return self._instead(self._meant(_read(item)), error)
        message = item.message
        if isinstance(message, types.JSONRPCError) and message.id is None:
            # In JSON-RPC, an error without an id answers a request that the server could not read.
            return self._instead(self._ids, message.error)
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)) and message.id is not None:
            if not self._known(message.id):
                # The server has answered a request under a wrong id, so that request will get no other answer.
                error = types.ErrorData(code=types.INTERNAL_ERROR, message=ANOTHERS)
                return self._instead(self._ids, error)
            self._ids -= {message.id}
        return []

    def _known(self, number: types.RequestId) -> bool:
        """Whether a request with this id was ever sent: a late answer to a cancelled request is no error."""
        return number in self._ids or (str(number).isdecimal() and int(number) <= self._newest)

    def _instead(self, meant: set[types.RequestId], error: types.ErrorData) -> list[SessionMessage]:
        found = sorted(meant, key=str)
        self._ids = self._ids - meant
        return [SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=each, error=error)) for each in found]

    def _meant(self, found: Any) -> set[types.RequestId]:
        """The requests that the broken answer `found` is for: the one with its id, or all that wait if it has none."""
        if isinstance(found, list):
            return {each for part in found for each in self._meant(part)}
        if not isinstance(found, dict) or "method" in found or not _like_an_answer(found):
            return set()
        number = found.get("id")
        if number is None:
            return set(self._ids)
        return {each for each in self._ids if str(each) == str(number) or each == number}


def _like_an_answer(found: dict[str, Any]) -> bool:
    """Whether the object looks like a JSON-RPC answer: a log line may be JSON too, with an `id` and an `error`."""
    return "jsonrpc" in found or ("id" in found and ("result" in found or isinstance(found.get("error"), dict)))


def _read(error: Exception) -> Any:
    """The content of an unreadable line, as far as it can be parsed."""
    if isinstance(error, TooLongError):
        return _parsed(error.beginning[:_BEGINNING])
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False, include_context=False)
    for problem in problems:
        # Pydantic tries each kind of message and reports an error for each. The first error, for a missing `method`,
        # has the whole message as its input.
        if len(problem["loc"]) == 1 or (problem["type"] == "missing" and problem["loc"][1:] == ("method",)):
            return problem["input"]
    line = problems[0]["input"]
    return _parsed(line) if isinstance(line, str) and line.lstrip().startswith(("{", "[{")) else None


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        readable = line[: error.pos]
    except (RecursionError, ValueError):  # `ValueError`, too, if a number has more digits than Python reads
        readable = line[:_BEGINNING]
    try:
        return from_json(readable, allow_partial=True)
    except ValueError:
        return None
