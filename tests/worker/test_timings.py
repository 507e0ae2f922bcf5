"""What a worker counts of the calls that it runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskhub.core.errors import Unavailable
from taskhub.core.states import State
from taskhub.core.timings import BOUNDS, TimingKind
from taskhub.domain.questions.answer import answer_question
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.timings import server_timings
from taskhub.lib.lanes import Lanes
from taskhub.worker import timings as module
from taskhub.worker.timings import Timings, bucket
from tests.domain import kit
from tests.upstream.servers import gates
from tests.worker.kit import Hall, call, ended, in_state, wait_until


def counted(server: str = "server-1") -> dict[str, int]:
    return {each.kind.value: sum(each.counts) for each in server_timings() if each.server == server}


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.0, 0), (0.005, 0), (0.0051, 1), (1.0, 7), (3600.0, 15), (3600.1, 16)]
)
def test_a_bucket_holds_what_took_up_to_its_end(seconds: float, place: int) -> None:
    assert bucket(seconds) == place


def test_each_call_is_counted_by_how_it_ended_and_each_wait(hall: Hall) -> None:
    server = hall.server()
    hall.start()
    for tool, arguments in (("echo", {"text": "x"}), ("echo", {"text": "y"}), ("refuse", {}), ("no_such_tool", {})):
        ended(call(hall.tool(server, tool), **arguments))
    asking = hall.tool(server, "ask")
    task = call(asking)
    in_state(task, State.INPUT_REQUIRED)
    answer_question(task, kit.opened(task), {"action": "accept", "content": {"word": "done"}}, actor=asking.actor)
    ended(task)
    slow = hall.tool(server, "hold", run_seconds=1)
    ended(call(slow))
    cancelled = call(hall.tool(server, "hold_again"))
    wait_until(lambda: len(gates.starts) == 2, "the other to run")
    request_cancel(cancelled, actor=slow.actor)
    ended(cancelled)
    hall.stop()
    found = counted()
    assert found.pop("error") + found.pop("faulted", 0) == 2
    assert found == {"waited": 8, "finished": 3, "asked": 1, "timed_out": 1, "cancelled": 1}
    took = next(each for each in server_timings() if each.kind is TimingKind.TIMED_OUT)
    assert 1.0 <= took.seconds < 10.0
    assert sum(took.counts[: BOUNDS.index(1.0)]) == 0, "in no bucket below what it took"


def test_what_is_counted_shows_while_the_worker_runs(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskhub.worker.engine.TIMINGS_SECONDS", 0.2)
    server = hall.server()
    hall.start()
    ended(call(hall.tool(server, "echo"), text="x"))
    wait_until(lambda: counted() == {"waited": 1, "finished": 1}, "the counts")


@pytest.mark.usefixtures("drains_briefly")
def test_what_is_left_when_a_worker_stops_is_counted_too(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskhub.worker.engine.TIMINGS_SECONDS", 3600.0)
    server = hall.server()
    hall.start()
    held = call(hall.tool(server, "hold", policy_at_least_once=True))
    ended(call(hall.tool(server, "echo"), text="x"))
    wait_until(gates.entered.is_set, "the other to run")
    assert counted() == {}
    hall.stop()
    assert kit.look(held).state is State.QUEUED
    assert counted() == {"waited": 2, "finished": 1, "given_back": 1}


async def test_what_cannot_be_stored_is_kept_with_what_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes(1)
    timings = Timings(lanes)
    stored: list[Any] = []
    away = True

    def store(found: list[Any]) -> None:
        if away:
            timings.add(1, TimingKind.FINISHED, 0.3)  # while it is tried
            timings.add(2, TimingKind.WAITED, 0.0)
            raise Unavailable("away")
        stored.extend(found)

    monkeypatch.setattr(module, "store_timings", store)
    timings.add(1, TimingKind.FINISHED, 0.1)
    with pytest.raises(Unavailable):
        await timings.store()
    away = False
    await timings.store()
    await timings.store()
    await asyncio.to_thread(lanes.close)
    assert [(each.server_id, each.kind, sum(each.counts), round(each.seconds, 3)) for each in stored] == [
        (1, TimingKind.FINISHED, 2, 0.4),
        (2, TimingKind.WAITED, 1, 0.0),
    ]
