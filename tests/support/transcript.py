"""What two sides said to each other, as a page of the docs shows it: recorded by the tests' clients,
with what differs from run to run replaced by names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

SHOWN: Final = ("mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id")
WIDTH: Final = 110
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_STATE: Final = re.compile(r'("requestState": ")[^"]+')
_VERSION: Final = re.compile(r'("name": ?"taskhub", ?"version": ?")[^"]+')


class Transcript:
    """A story in the making. `name` gives a value that is new each time a word to read."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._names: dict[str, str] = {}
        self._ids: dict[int, int] = {}

    def name(self, value: str, word: str) -> str:
        """Show `value` as `word` from here on."""
        self._names[value] = word
        return value

    def say(self, text: str) -> None:
        """A sentence between the messages."""
        self._parts.append(text)

    def sent(self, verb: str, path: str, headers: Mapping[str, str], message: Any) -> None:
        """What the client sends."""
        lines = [f"→ {verb} {path}"]
        lines += [f"  {_title(name)}: {headers[name]}" for name in SHOWN if name in headers]
        if message is not None:
            lines.append(_body(self._numbered(message)))
        self._parts.append("```http\n" + "\n".join(lines) + "\n```")

    def received(self, status: int, kind: str, messages: list[Any], headers: Mapping[str, str]) -> None:
        """What the server answers, or one more message on its stream."""
        lines = [f"← {status}" + (f" {kind}" if kind else "")]
        lines += [f"  {_title(name)}: {headers[name]}" for name in SHOWN if name in headers]
        lines += [_body(self._numbered(message)) for message in messages]
        self._parts.append("```http\n" + "\n".join(lines) + "\n```")

    def _numbered(self, message: Any) -> Any:
        """With ids counted from one: not all that was said is shown."""
        if not isinstance(message, dict) or not isinstance(message.get("id"), int):
            return message
        return {**message, "id": self._ids.setdefault(message["id"], len(self._ids) + 1)}

    def markdown(self) -> str:
        """The whole, with names for what differs."""
        text = "\n\n".join(self._parts)
        for value, word in sorted(self._names.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(value, word)
        text = _STATE.sub(r"\g<1>STATE", text)
        return _VERSION.sub(r"\g<1>…", _STAMP.sub("2026-08-01T10:00:00.000Z", text)) + "\n"


def _title(name: str) -> str:
    return "MCP-Protocol-Version" if name == "mcp-protocol-version" else name.title()


def _body(value: Any, room: int = WIDTH, depth: int = 0) -> str:
    """JSON in as few lines as fit."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= room or not value or not isinstance(value, (dict, list)):
        return line
    inner = "  " * (depth + 1)
    if isinstance(value, dict):
        parts = []
        for key, item in value.items():
            head = f"{json.dumps(key)}: "
            parts.append(head + _body(item, WIDTH - len(inner) - len(head), depth + 1))
    else:
        parts = [_body(item, WIDTH - len(inner), depth + 1) for item in value]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return opening + "\n" + ",\n".join(inner + part for part in parts) + "\n" + "  " * depth + closing
