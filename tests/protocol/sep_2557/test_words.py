"""The words of SEP-2557, without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from taskhub.core.records import Audience, OpenQuestion, QuestionKind, State, TaskRecord
from taskhub.protocol.registry import REVISIONS, shown
from taskhub.protocol.revisions.sep_2557 import tasks
from tests.protocol import schema

AT = datetime(2026, 8, 1, 10, tzinfo=UTC)
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def make_record(state: State, audience: Audience | None = None, **changes: Any) -> TaskRecord:
    """A task in that state, with what such a one has."""
    question = OpenQuestion("q", QuestionKind.ELICITATION, FORM, audience or Audience.CLIENT, "", 1, 0)
    fields: dict[str, Any] = {
        "id": 1,
        "public_id": "A" * 32,
        "revision": "sep-2557",
        "state": state,
        "message": "",
        "progress": None,
        "total": None,
        "created_at": AT,
        "updated_at": AT,
        "ended_at": None,
        "ttl_ms": 60_000,
        "poll_interval_ms": 5_000,
        "result_json": '{"content":[],"isError":true}' if state is State.FINISHED else None,
        "error_json": '{"code":-32603,"message":"lost"}' if state is State.FAULTED else None,
        "is_error": state is State.FINISHED,
        "cancel_requested_at": None,
        "version": 1,
        "tool_name": "t",
        "questions": (question,) if state is State.INPUT_REQUIRED else (),
    }
    return TaskRecord(**{**fields, **changes})


@pytest.mark.parametrize(
    ("state", "audience", "status", "payload"),
    [
        (State.QUEUED, None, "working", None),
        (State.WORKING, None, "working", None),
        (State.INPUT_REQUIRED, Audience.CLIENT, "input_required", "inputRequests"),
        (State.INPUT_REQUIRED, Audience.EITHER, "input_required", "inputRequests"),
        (State.INPUT_REQUIRED, Audience.OPERATOR, "working", None),
        (State.FINISHED, None, "completed", "result"),
        (State.FAULTED, None, "failed", "error"),
        (State.CANCELLED, None, "cancelled", None),
    ],
)
@pytest.mark.req("T2557-10", "T2557-11", "T2557-21")
def test_every_state_has_one_of_five_statuses_and_its_payload(
    state: State, audience: Audience | None, status: str, payload: str | None
) -> None:
    found = tasks.wire_view(make_record(state, audience))
    schema.check("sep_2557_get_task_result", found)
    assert found["status"] == status
    assert {"inputRequests", "result", "error"} & set(found) == ({payload} if payload else set())


@pytest.mark.parametrize(("ttl_ms", "ttl"), [(60_000, 60), (60_001, 61), (1, 1), (86_400_000, 86_400), (None, None)])
@pytest.mark.req("T2557-09")
def test_ttl_is_in_seconds_and_the_poll_interval_in_milliseconds(ttl_ms: int | None, ttl: int | None) -> None:
    found = tasks.task_fields(make_record(State.WORKING, ttl_ms=ttl_ms), "s")
    assert (found["ttl"], found["pollInterval"]) == (ttl, 5_000)
    assert type(found["ttl"]) in (int, type(None))


@pytest.mark.req("T2557-23")
def test_a_task_is_shown_in_the_words_of_its_own_revision() -> None:
    task = make_record(State.WORKING, handle=True)
    found = {
        name: shown(TaskRecord(**{**{f: getattr(task, f) for f in TaskRecord.__dataclass_fields__}, "revision": name}))
        for name in REVISIONS
    }
    assert {"ttlMs", "pollIntervalMs"} < set(found["2026-07-28"])
    assert not {"ttl", "requestState"} & set(found["2026-07-28"])
    assert {"ttl", "pollInterval", "requestState"} < set(found["sep-2557"])
    assert {"ttl", "pollInterval"} < set(found["2025-11-25"])
    assert (found["2025-11-25"]["ttl"], found["sep-2557"]["ttl"]) == (60_000, 60)
    assert not {"requestState", "resultType"} & set(found["2025-11-25"])
