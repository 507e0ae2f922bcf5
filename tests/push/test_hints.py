"""Who is woken by a ring: exactly those who watch that topic, once, and everybody by `ring_all`."""

from __future__ import annotations

import asyncio

import pytest

from taskhub.core.hints import CATALOGUE, TaskCancelled, TaskChanged, TaskQueued, run_topic
from taskhub.protocol.hub import REMEMBERED, Hints


def test_a_ring_wakes_who_watches_that_topic_and_nobody_else() -> None:
    hints = Hints()
    with hints.watch("a") as a, hints.watch("a", "b") as both, hints.watch("b") as b, hints.watch("ab") as ab:
        hints.ring("a")
        assert [bell.is_set() for bell in (a, both, b, ab)] == [True, True, False, False]
        a.clear()
        both.clear()
        hints.ring("b")
        assert [bell.is_set() for bell in (a, both, b, ab)] == [False, True, True, False]


@pytest.mark.parametrize("topic", ["", "A", "a ", "c", CATALOGUE])
def test_a_ring_for_nobody_wakes_nobody(topic: str) -> None:
    hints = Hints()
    with hints.watch("a") as bell:
        hints.ring(topic)
        assert not bell.is_set()
        assert list(hints._waiting) == ["a"]


def test_everybody_is_woken_when_anything_may_have_happened() -> None:
    hints = Hints()
    with hints.watch("a") as a, hints.watch(CATALOGUE) as catalogue, hints.watch() as deaf:
        hints.ring_all()
        assert [bell.is_set() for bell in (a, catalogue, deaf)] == [True, True, False]


def test_who_has_stopped_watching_is_not_rung_and_leaves_nothing_behind() -> None:
    hints = Hints()
    with hints.watch("a", "b") as first:
        with hints.watch("a") as second:
            pass
        hints.ring("a")
        assert (first.is_set(), second.is_set()) == (True, False)
    first.clear()
    hints.ring("a")
    hints.ring_all()
    assert not first.is_set()
    assert not hints._waiting


def test_a_watcher_that_fails_leaves_too() -> None:
    hints = Hints()
    with pytest.raises(ZeroDivisionError), hints.watch("a"):
        raise ZeroDivisionError
    assert not hints._waiting


def test_what_rang_since_a_moment_is_known() -> None:
    hints = Hints()
    hints.ring("a")
    moment = hints.now()
    assert not hints.rung_since(moment, "a")
    hints.ring("b")
    hints.ring("a")
    assert hints.rung_since(moment, "a")
    assert not hints.rung_since(moment, "c")
    assert not hints.rung_since(hints.now(), "a")


def test_after_a_gap_or_many_rings_anything_may_have_rung() -> None:
    hints = Hints()
    moment = hints.now()
    hints.ring_all()
    assert not hints.rung_since(moment, "a")
    hints.ring_all(lost=True)
    assert hints.rung_since(moment, "a")
    moment = hints.now()
    for n in range(REMEMBERED):
        assert not hints.rung_since(moment, "a")
        hints.ring(f"b{n}")
    assert hints.rung_since(moment, "a")


def test_only_the_news_that_a_task_is_queued_does_not_ring_for_its_outcome() -> None:
    outcome = run_topic("task")
    assert outcome not in TaskQueued(1, 2, 3, "task").rings()
    assert outcome in TaskChanged(1, 2, 3, "task").rings()
    assert outcome in TaskCancelled(1, 2, 3, "task").rings()


def test_a_topic_named_twice_is_left_once() -> None:
    hints = Hints()
    with hints.watch("a", "a") as bell:
        hints.ring("a")
        assert bell.is_set()
    assert not hints._waiting


async def test_news_between_the_look_and_the_wait_is_not_slept_through() -> None:
    hints = Hints()
    with hints.watch("a") as bell:
        hints.ring("a")  # after the watch began, before anybody waits
        async with asyncio.timeout(1):
            await bell.wait()


async def test_a_hundred_waiters_of_one_task_all_wake_of_one_ring() -> None:
    hints = Hints()
    ready, woken = asyncio.Semaphore(0), list[int]()

    async def wait(n: int) -> None:
        with hints.watch(f"task-{n % 2}") as bell:
            ready.release()
            await bell.wait()
            woken.append(n)

    waiters = [asyncio.create_task(wait(n)) for n in range(100)]
    for _ in waiters:
        await ready.acquire()
    hints.ring("task-1")
    async with asyncio.timeout(2):
        await asyncio.gather(*waiters[1::2])
    assert sorted(woken) == list(range(1, 100, 2))
    hints.ring_all()
    async with asyncio.timeout(2):
        await asyncio.gather(*waiters)
    assert len(woken) == 100
