"""Previews: what a call that people are asked about would do, as its own server says. Reads them for pages and
decisions, and makes them from answers of servers. `domain.tasks.previews` runs them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.lib import jsonx
from taskhub.store import statements

MAX_KEPT: Final = 65_536
"""The most characters that are kept of the answer of a preview."""


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """The preview of an approval as people see it. While `ended_at` is `None`, the preview has not ended, nobody can
    approve, and `digest` is empty."""

    tool: str
    arguments: str | None
    tries: int
    ended_at: datetime | None
    text: str | None
    """The answer as text; `None` if there was none, and then `problem` says why."""
    left_out: int
    is_error: bool
    problem: str
    digest: str
    changed: bool
    """Whether people approved the call before with another preview, whose text is `before`."""
    before: str | None
    before_is_error: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a preview. `text` is what people read; `None` if there was no answer, and then `problem` says why.
    `digest`, in hex, is of the whole answer; all previews without an answer have the same."""

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
    """The outcome of a preview that did not answer, for the reason `why`."""
    return Answer(digest=hashlib.sha256(b"no answer").hexdigest(), problem=jsonx.repaired(why)[:1_000])


def answer_of(result: dict[str, Any]) -> Answer:
    """The result of a tool as people read it. Content that is no text is named with its size and digest, so that two
    answers have the same digest if and only if people would read the same in full."""
    text, wrong = _text(jsonx.repaired(result)), result.get("isError") is True
    digest = hashlib.sha256((b"error\n" if wrong else b"answer\n") + text.encode()).hexdigest()
    return Answer(digest, text[:MAX_KEPT], max(0, len(text) - MAX_KEPT), wrong)


def _text(result: dict[str, Any]) -> str:
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = content if isinstance(content, list) else []
    parts = [_part(block, structured) for block in blocks]
    # SDKs return a text also as `{"result": text}`, which would repeat it.
    wrapped = len(blocks) == 1 and structured == {"result": parts[0]}
    if structured is not None and not wrapped:
        parts.append(_json(structured))
    return "\n\n".join(part for part in parts if part)


def _part(block: Any, structured: Any) -> str:
    """One block of the content; empty if it only repeats the structured content, as servers do for older clients."""
    if isinstance(block, dict) and isinstance(text := block.get("text"), str) and block.get("type") == "text":
        return "" if structured is not None and _repeats(text, structured) else text
    if isinstance(block, dict):
        # Annotations, such as for whom a block is meant, are not shown to people.
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
    """The value as JSON, with sorted members: the order in which a server sends them has no meaning."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
