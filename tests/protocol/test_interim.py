"""What a client without tasks is told of a call that has not ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from taskhub.core.states import State
from taskhub.protocol.plain.interim import interim_result
from tests.factories import make_context, make_task, make_tenant

pytestmark = pytest.mark.django_db


def test_a_call_that_is_being_cancelled_says_so_whatever_its_last_progress_was() -> None:
    made = make_task(make_context(make_tenant()))
    task = replace(made, state=State.WORKING, message="5 min to go", cancel_requested_at=datetime.now(UTC))
    result = interim_result(task, base="http://hub", patience=25.0, tools=True)
    assert result["structuredContent"]["taskhub"]["says"] == "It is being cancelled."
    assert "It is being cancelled." in result["content"][0]["text"]
    going_on = replace(task, cancel_requested_at=None)
    assert (
        "It is running: 5 min to go"
        in interim_result(going_on, base="", patience=None, tools=True)["content"][0]["text"]
    )
