"""A reply that cannot be read must not leave its call waiting until its time is over.

The SDK drops a line of a command that is no JSON-RPC message, which is right for what sloppy servers print beside their
answers. Where such a line is a broken answer, the request that it answers gets an error in its place.
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

_BEGINNING: Final = 128
"""Characters read of a line that is nested too deep to be parsed: the id comes first."""


class Waiting:
    """The requests of one connection that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()
        self._newest = -1
        """The highest id so far. The SDK counts its requests, so every id up to this one was sent at some time."""

    def sent(self, message: Any) -> None:
        """Note which requests wait for an answer, and which no longer do."""
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
            if isinstance(message.id, int):
                self._newest = max(self._newest, message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId", ""))

    def received(self, item: SessionMessage | Exception) -> list[SessionMessage]:
        """The errors that replace what came: none where it is a message, and none for noise."""
        if not isinstance(item, SessionMessage):
            error = types.ErrorData(code=types.INTERNAL_ERROR, message=UNREADABLE)
            return self._instead(self._meant(_read(item)), error)
        message = item.message
        if isinstance(message, types.JSONRPCError) and message.id is None:
            # In JSON-RPC, the answer to a request that could not be read.
            return self._instead(self._ids, message.error)
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)) and message.id is not None:
            if not self._known(message.id):
                # Whatever request it was meant for, no other answer to that will come.
                error = types.ErrorData(code=types.INTERNAL_ERROR, message=ANOTHERS)
                return self._instead(self._ids, error)
            self._ids -= {message.id}
        return []

    def _known(self, number: types.RequestId) -> bool:
        """Whether a request with this id was sent, perhaps long ago: a late answer to an abandoned one is no error."""
        return number in self._ids or (str(number).isdecimal() and int(number) <= self._newest)

    def _instead(self, meant: set[types.RequestId], error: types.ErrorData) -> list[SessionMessage]:
        found = sorted(meant, key=str)
        self._ids = self._ids - meant
        return [SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=each, error=error)) for each in found]

    def _meant(self, found: Any) -> set[types.RequestId]:
        """The requests that this answers: the one with its id, or without an id every request that waits."""
        if isinstance(found, list):
            return {each for part in found for each in self._meant(part)}
        if not isinstance(found, dict) or "method" in found or not _like_an_answer(found):
            return set()
        number = found.get("id")
        if number is None:
            return set(self._ids)
        return {each for each in self._ids if str(each) == str(number) or each == number}


def _like_an_answer(found: dict[str, Any]) -> bool:
    """Whether it is meant as an answer: a log line may be JSON as well, with an `id` and an `error` of its own."""
    return "jsonrpc" in found or ("id" in found and ("result" in found or isinstance(found.get("error"), dict)))


def _read(error: Exception) -> Any:
    """The content of the line, as far as it can be read."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False, include_context=False)
    for problem in problems:
        # Pydantic tries each shape. A message without a method lacks it in the first, whose error shows all of it.
        if len(problem["loc"]) == 1 or (problem["type"] == "missing" and problem["loc"][1:] == ("method",)):
            return problem["input"]
    line = problems[0]["input"]
    return _parsed(line) if isinstance(line, str) and line.lstrip().startswith(("{", "[{")) else None


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        readable = line[: error.pos]
    except (RecursionError, ValueError):  # or a number has more digits than Python reads
        readable = line[:_BEGINNING]
    try:
        return from_json(readable, allow_partial=True)
    except ValueError:
        return None
