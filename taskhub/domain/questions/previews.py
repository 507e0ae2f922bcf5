"""Previews: what a call that people are asked about would do, by its own server. Read for pages and decisions, and made
of what a server answers. `domain.tasks.previews` runs them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.lib import jsonx
from taskhub.store import statements

MAX_KEPT: Final = 65_536
"""The most characters that are kept of what a preview answers."""


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """The preview of an approval as people see it. Until `ended_at` it has not answered, and nobody can approve.
    `digest` is empty until then."""

    tool: str
    arguments: str | None
    tries: int
    ended_at: datetime | None
    text: str | None
    """What it answered; `None` if it did not, and then `problem` says why."""
    left_out: int
    is_error: bool
    problem: str
    digest: str
    changed: bool
    """Whether people have approved the call with another preview before, of which `before` is the text."""
    before: str | None
    before_is_error: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a preview. `text` is what people read; `None` where nothing was answered, and then `problem` says
    why. `digest`, in hex, is of the whole answer; it is the same for all that have none."""

    digest: str
    text: str | None = None
    left_out: int = 0
    is_error: bool = False
    problem: str = ""


_SHOWN = statements.maybe("shown_preview", ShownPreview)


def shown_preview(question_id: int) -> ShownPreview | None:
    """The preview of an approval; `None` if the rule that asked has none."""
    return _SHOWN(question=question_id)


def failed(why: str) -> Answer:
    """A preview that did not answer."""
    return Answer(digest=hashlib.sha256(b"no answer").hexdigest(), problem=jsonx.repaired(why)[:1_000])


def answer_of(result: dict[str, Any]) -> Answer:
    """What the result of a tool shows, as text: what is no text is named with its size and digest, so that two answers
    have the same digest if and only if people would read the same in full."""
    text, wrong = _text(jsonx.repaired(result)), result.get("isError") is True
    digest = hashlib.sha256((b"error\n" if wrong else b"answer\n") + text.encode()).hexdigest()
    return Answer(digest, text[:MAX_KEPT], max(0, len(text) - MAX_KEPT), wrong)


def _text(result: dict[str, Any]) -> str:
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = content if isinstance(content, list) else []
    parts = [_part(block, structured) for block in blocks]
    # SDKs wrap what a tool returns as a text.
    wrapped = len(blocks) == 1 and structured == {"result": parts[0]}
    if structured is not None and not wrapped:
        parts.append(_json(structured))
    return "\n\n".join(part for part in parts if part)


def _part(block: Any, structured: Any) -> str:
    """One block of the content; empty if it only repeats the structured content, as servers do for older clients."""
    if isinstance(block, dict) and isinstance(text := block.get("text"), str) and block.get("type") == "text":
        return "" if structured is not None and _repeats(text, structured) else text
    if isinstance(block, dict):
        # How a block is meant, such as for whom, is nothing that people are shown.
        block = {name: value for name, value in block.items() if name not in ("annotations", "_meta")}
    if isinstance(block, dict) and isinstance(data := block.get("data"), str):
        return _json(block | {"data": f"{len(data):,} characters, SHA-256 {hashlib.sha256(data.encode()).hexdigest()}"})
    return _json(block)


def _repeats(text: str, structured: Any) -> bool:
    if text[:1] not in "{[":
        return False
    try:
        return jsonx.canonical(json.loads(text)) == jsonx.canonical(structured)
    except (ValueError, TypeError, RecursionError):
        return False


def _json(value: Any) -> str:
    """As JSON with sorted members: in which order a server names them means nothing."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
