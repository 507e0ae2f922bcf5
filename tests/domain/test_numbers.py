"""The overview's numbers, hours and failing tools against counts made by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.records import TaskRecord
from taskhub.core.rules import Rule, Then
from taskhub.core.states import Audience
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import callers
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.stats import day, numbers
from taskhub.store.models import AccessToken, AuthContext, Server, Task, Tool, Worker
from tests.domain import kit
from tests.domain.cost import make_old, past_the_guards
from tests.factories import WORKER, make_context, make_question, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db
NOTHING = {
    "working": 0, "waiting_people": 0, "waiting_client": 0, "unfetched": 0,
    "live_workers": 0, "servers": 0, "tools": 0, "tokens": 0, "ever": False,
}  # fmt: skip


@pytest.fixture
def context() -> AuthContext:
    return make_context(make_tenant())


def counted(context: AuthContext) -> dict[str, Any]:
    found = numbers(context.tenant_id)
    return {name: getattr(found, name) for name in NOTHING}


def bring(context: AuthContext, tool: Any, times: dict[str, int], **more: Any) -> list[TaskRecord]:
    return [make_task(context, tool, state=state, **more) for state, count in times.items() for _ in range(count)]


def test_an_empty_tenant_has_no_numbers_however_busy_its_neighbour_is(context: AuthContext) -> None:
    other = make_context(make_tenant())
    bring(other, None, {"queued": 1, "working": 1, "input_required": 1, "finished-error": 1, "faulted": 1})
    AccessToken.objects.create(context=other, digest=bytes(32), prefix="thub_x")
    assert counted(context) == NOTHING
    assert day(context.tenant_id).counts.errors == 0


def test_each_number_counts_what_it_is_called_and_nothing_else(context: AuthContext) -> None:
    server = make_server(context.tenant)
    tool, gone = make_tool(server), make_tool(server)
    Tool.objects.filter(pk=gone.id).update(gone_at=timezone.now())
    Server.objects.create(tenant=context.tenant, name="off", transport="stdio", target="x", enabled=False)
    bring(context, tool, {"queued": 1, "working": 2, "finished": 3, "finished-error": 4, "faulted": 5, "cancelled": 6})
    for audience, count in ((Audience.CLIENT, 1), (Audience.OPERATOR, 2), (Audience.EITHER, 3)):
        for _ in range(count):
            make_task(context, tool, state="input_required", question=make_question(audience=audience))
    for state in ("queued", "finished", "faulted", "cancelled"):
        left = make_task(context, gone, state=state, waiter="w")
        callers.leave(left.id, "w", actor=WORKER)
        if state == "queued":
            request_cancel(left.id, actor=WORKER)
    now = timezone.now()
    for n, revoked in enumerate([None, None, now]):
        AccessToken.objects.create(context=context, digest=bytes([n] * 32), prefix="thub_x", revoked_at=revoked)
    for name, columns in (
        ("alive", {}),
        ("silent", {"heartbeat_at": now - timedelta(minutes=2)}),
        ("stopped", {"stopped_at": now}),
    ):
        Worker.objects.create(name=name, host="h", pid=1, version="1", slots=1, **columns)
    assert day(context.tenant_id).counts.errors == 10
    assert counted(context) == {
        "working": 2, "waiting_people": 5, "waiting_client": 1, "unfetched": 2,
        "live_workers": 1, "servers": 1, "tools": 1, "tokens": 2, "ever": True,
    }  # fmt: skip


def test_failures_older_than_a_day_are_history(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    tasks = bring(context, tool, {"faulted": 2, "finished-error": 2})
    make_old({tasks[0].id: timedelta(hours=25), tasks[2].id: timedelta(hours=23, minutes=50)})
    assert day(context.tenant_id).counts.errors == 3


def test_a_question_that_is_closed_is_waited_for_no_more(context: AuthContext) -> None:
    task = make_task(context, state="input_required")
    assert numbers(context.tenant_id).waiting_people == 1
    with past_the_guards():
        Task.objects.filter(pk=task.id).update(state="cancelled", ended_at=timezone.now())
    assert numbers(context.tenant_id).waiting_people == 0


def end_at(task: TaskRecord, moment: datetime) -> None:
    with past_the_guards():
        Task.objects.filter(pk=task.id).update(ended_at=moment, created_at=moment - timedelta(seconds=1))


def test_each_hour_holds_what_ended_in_it_to_the_second(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    now = datetime(2026, 5, 4, 12, 34, 56, tzinfo=UTC)
    this = now.replace(minute=0, second=0)
    made = bring(context, tool, {"finished": 4, "finished-error": 1, "faulted": 1, "cancelled": 1})
    moments = [
        this,  # finished: the first moment of the hour that runs
        this - timedelta(microseconds=1),  # finished: the last of the one before
        this - timedelta(hours=23),  # finished: the first moment that is shown
        this - timedelta(hours=23, microseconds=1),  # finished: too old
        this - timedelta(hours=5),  # failed
        this - timedelta(hours=4, seconds=1),  # failed, in the same hour
        this - timedelta(hours=4, minutes=30),  # cancelled, there too
    ]
    for task, moment in zip(made, moments, strict=True):
        end_at(task, moment)
    end_at(make_task(make_context(make_tenant()), state="finished"), this)
    found = day(context.tenant_id, now=now).hours
    assert [hour.start for hour in found] == [this - timedelta(hours=23 - n) for n in range(24)]
    hours = [hour.counts for hour in found]
    told = {23 - n: (h.finished, h.errors, h.cancelled, h.total) for n, h in enumerate(hours) if h.total}
    assert told == {0: (1, 0, 0, 1), 1: (1, 0, 0, 1), 5: (0, 2, 1, 3), 23: (1, 0, 0, 1)}


def test_the_hours_of_now_end_with_the_one_that_runs(context: AuthContext) -> None:
    make_task(context, state="finished")
    before, found, after = timezone.now(), day(context.tenant_id).hours, timezone.now()
    assert before.replace(minute=0, second=0, microsecond=0) <= found[-1].start <= after
    assert sum(hour.counts.total for hour in found) == 1


def test_failing_tools_come_worst_first_with_how_many_of_how_many(context: AuthContext) -> None:
    server = make_server(context.tenant)
    good, bad, worse, once = (make_tool(server, name) for name in ("good", "bad", "worse", "once"))
    bring(context, good, {"finished": 5, "cancelled": 1})
    bring(context, bad, {"finished-error": 1, "faulted": 1, "finished": 2, "cancelled": 1, "queued": 1})
    bring(context, worse, {"faulted": 3})
    old = bring(context, once, {"faulted": 2})
    make_old({old[0].id: timedelta(hours=25)})
    found = day(context.tenant_id).failing
    assert [(row.tool_name, row.errors, row.ended) for row in found] == [
        ("worse", 3, 3), ("bad", 2, 5), ("once", 1, 1),
    ]  # fmt: skip
    assert [row.tool_name for row in day(context.tenant_id).failing[:2]] == ["worse", "bad"]
    assert day(make_tenant().pk).failing == ()


def test_a_call_that_a_rule_denied_is_no_failure_of_its_tool(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant), "deploy")

    def denied() -> None:
        make_task(context, tool)
        version = present(context.tenant_id).version
        save_rules(context.tenant_id, [Rule(name="no", when="", then=Then.DENY)], expected=version, actor=WORKER)
        assert kit.claim() == []
        save_rules(context.tenant_id, [], expected=version + 1, actor=WORKER)

    denied()
    found = day(context.tenant_id)
    assert (found.failing, found.counts.errors, found.counts.denied) == ((), 0, 1)
    failed = make_task(context, tool, state="faulted")
    denied()
    found = day(context.tenant_id)
    assert [(row.errors, row.ended, row.last_public_id) for row in found.failing] == [(1, 3, failed.public_id)]
    assert (found.counts.errors, found.counts.denied) == (1, 2)


def test_a_failing_tool_shows_its_latest_failure_not_its_latest_task(context: AuthContext) -> None:
    tool = make_tool(make_server(context.tenant))
    text = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
    first = make_task(context, tool, state="faulted")
    last = make_task(context, tool, state="finished-error", result=text)
    make_task(context, tool, state="finished")
    (row,) = day(context.tenant_id).failing
    assert (row.last_public_id, row.last_message, row.last_at) == (last.public_id, "no such city", last.ended_at)
    assert row.last_public_id != first.public_id
