"""Which tasks a session's own stream asks about."""

from __future__ import annotations

import pytest

from taskhub.domain.sessions.reads import live_sessions
from taskhub.domain.sessions.writes import leave_stream, open_stream, start_session
from taskhub.domain.tasks.handles import asking_tasks
from tests.factories import make_context, make_task, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_call_asks_on_its_own_stream_even_before_that_is_open() -> None:
    context = make_context(make_tenant())
    public_id = start_session(
        tenant_id=context.tenant_id, context_id=context.pk, version="2025-11-25", client_info={}, capabilities={}
    )
    (session,) = live_sessions([(public_id, context.pk)])
    assert session is not None

    def asking() -> list[int]:
        return [task.id for task in asking_tasks(session.id)]

    handle = make_task(context, state="input_required", session_id=session.id, request_id="1", handle=True)
    waited = make_task(context, state="input_required", session_id=session.id, request_id="2", handle=False)
    assert asking() == [handle.id]
    place = open_stream(session.id, "call", task_id=waited.id, request_id="2")
    leave_stream(place, closed=False)
    assert asking() == [handle.id, waited.id], "its caller went away and may be told elsewhere"
