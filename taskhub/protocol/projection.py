"""What several revisions show the same way: instants, results, and the questions that are the client's
to answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from taskhub.core.names import META_SERVER
from taskhub.core.records import Audience, OpenQuestion, TaskRecord
from taskhub.domain.questions.kinds import METHODS
from taskhub.lib import jsonx


def timestamp(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds (T26-17, T25-15)."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_client(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions that the client may answer."""
    return tuple(q for q in task.questions if q.audience is not Audience.OPERATOR and q.kind in METHODS)


def input_requests(questions: tuple[OpenQuestion, ...]) -> dict[str, Any]:
    """Questions by key, as the wires of 2026 ask them (T26-24, B26-61)."""
    return {q.key: {"method": METHODS[q.kind], "params": q.params} for q in questions}


def complete_result(task: TaskRecord) -> bytes:
    """The tool's result as a plain call on the wires of 2026 returns it, with its own `resultType`
    (clients reject an inlined result without one)."""
    assert task.result_json is not None  # CHECK task_result_iff_finished
    body = task.result_json.encode()
    if META_SERVER.encode() in body:
        # Of the server behind us: our own replies say whose they are.
        found = json.loads(body)
        if isinstance(meta := found.get("_meta"), dict) and meta.pop(META_SERVER, None) is not None:
            if not meta:
                del found["_meta"]
            body = jsonx.encode(found)
    return b'{"resultType":"complete"' + (b"," if body != b"{}" else b"") + body[1:]
