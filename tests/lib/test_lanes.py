"""Lanes: a few threads that run ordinary calls for async callers."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest

from taskhub.lib.lanes import FRESH_SECONDS, Crowded, Lanes, seconds_left

BOUND = 5.0


class Unusual(BaseException):
    """What `except Exception` would let through."""


def boom(error: BaseException) -> None:
    raise error


async def test_a_call_runs_in_a_lane_with_its_arguments(lanes: Lanes) -> None:
    def work(one: int, *, two: int) -> tuple[int, str]:
        return one + two, threading.current_thread().name

    result, name = await lanes.run(work, 1, two=2)
    assert result == 3
    assert name in ("test-0", "test-1")


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("k"), Unusual()])
async def test_what_a_call_raises_its_caller_gets(lanes: Lanes, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        await asyncio.wait_for(lanes.run(boom, error), BOUND)
    assert caught.value is error


async def test_a_stop_iteration_reaches_its_caller_too(lanes: Lanes) -> None:
    """A future refuses it; its caller must not wait for ever."""
    with pytest.raises(RuntimeError):
        await asyncio.wait_for(lanes.run(next, iter(())), BOUND)


async def test_a_lane_survives_what_its_calls_raise(lanes: Lanes) -> None:
    for _ in range(6):
        with pytest.raises(ValueError):
            await lanes.run(boom, ValueError())
    assert await lanes.run(int, "7") == 7


async def test_calls_run_side_by_side_one_per_lane(lanes: Lanes) -> None:
    both = threading.Barrier(2)
    await asyncio.wait_for(asyncio.gather(*(lanes.run(both.wait, BOUND) for _ in range(2))), BOUND)


async def test_more_calls_than_lanes_all_get_their_turn(lanes: Lanes) -> None:
    assert await asyncio.gather(*(lanes.run(pow, n, 2) for n in range(200))) == [n * n for n in range(200)]


async def test_a_caller_that_goes_away_does_not_stop_the_call(lanes: Lanes) -> None:
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(BOUND)
        done.set()

    waiting = asyncio.ensure_future(lanes.run(work))
    assert await asyncio.to_thread(started.wait, BOUND)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not done.is_set()
    go_on.set()
    assert await asyncio.to_thread(done.wait, BOUND)


async def test_cleaning_up_happens_in_the_lane_after_each_call() -> None:
    seen: list[str] = []
    lanes = Lanes(1, name="one", after=lambda: seen.append(threading.current_thread().name))
    await lanes.run(int)
    with pytest.raises(ValueError):
        await lanes.run(boom, ValueError())
    lanes.close()
    assert seen == ["one-0", "one-0"]


async def test_a_lane_survives_its_cleaning_up(caplog: pytest.LogCaptureFixture) -> None:
    lanes = Lanes(1, after=lambda: boom(RuntimeError("broken")))
    for _ in range(3):
        assert await asyncio.wait_for(lanes.run(int, "7"), BOUND) == 7
    lanes.close()
    assert "cleaning up after a call failed" in caplog.text


async def test_closing_finishes_what_is_queued_and_says_goodbye() -> None:
    ended: list[str] = []
    lanes = Lanes(2, name="end", at_exit=lambda: ended.append(threading.current_thread().name))
    waiting = [asyncio.ensure_future(lanes.run(pow, n, 2)) for n in range(20)]
    await asyncio.sleep(0)
    await asyncio.to_thread(lanes.close)
    assert await asyncio.gather(*waiting) == [n * n for n in range(20)]
    assert sorted(ended) == ["end-0", "end-1"]


def test_a_loop_that_is_gone_does_no_harm() -> None:
    lanes = Lanes(1)
    started, go_on = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(BOUND)

    async def leave() -> None:
        waiting = asyncio.ensure_future(lanes.run(work))
        await asyncio.to_thread(started.wait, BOUND)
        waiting.cancel()

    asyncio.run(leave())
    go_on.set()
    assert asyncio.run(lanes.run(int, "7")) == 7
    lanes.close()


async def test_whoever_waits_too_long_is_told_and_their_call_is_never_begun() -> None:
    lanes = Lanes(1)
    go_on = threading.Event()
    began: list[int] = []
    holding = asyncio.ensure_future(lanes.run(go_on.wait, BOUND))
    await asyncio.sleep(0)
    with pytest.raises(Crowded):
        await lanes.run_soon(lambda: began.append(1), seconds=0.02, most=5)
    patient = asyncio.ensure_future(lanes.run_soon(lambda: began.append(2), seconds=BOUND, most=5))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(holding, patient)
    assert began == [2]
    await asyncio.to_thread(lanes.close)


async def test_a_full_line_is_told_at_once() -> None:
    lanes = Lanes(1)
    go_on = threading.Event()
    waiting = [
        asyncio.ensure_future(lanes.run_soon(lambda: go_on.wait(BOUND), seconds=BOUND, most=2)) for _ in range(2)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Crowded):
        await lanes.run_soon(int, seconds=BOUND, most=2)
    go_on.set()
    assert await asyncio.gather(*waiting) == [True, True]
    assert await lanes.run_soon(lambda: 7, seconds=BOUND, most=2) == 7
    await asyncio.to_thread(lanes.close)


async def test_a_caller_that_leaves_the_line_takes_its_call_along() -> None:
    lanes = Lanes(1)
    go_on = threading.Event()
    began: list[int] = []
    holding = asyncio.ensure_future(lanes.run(go_on.wait, BOUND))
    leaving = asyncio.ensure_future(lanes.run_soon(lambda: began.append(1), seconds=BOUND, most=5))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    go_on.set()
    await holding
    await lanes.run(int)
    assert began == []
    await asyncio.to_thread(lanes.close)


async def test_an_error_is_told_in_the_words_of_who_made_the_lanes() -> None:
    lanes = Lanes(1, explain=lambda error: LookupError(f"explained: {error}"))
    with pytest.raises(LookupError, match=r"^explained: x$"):
        await lanes.run(boom, ValueError("x"))
    await asyncio.to_thread(lanes.close)


async def test_a_call_that_waited_too_long_is_not_begun() -> None:
    lanes = Lanes(1, patience=0.05, explain=lambda error: LookupError(type(error).__name__))
    holding = asyncio.ensure_future(lanes.run(threading.Event().wait, 0.2))
    await asyncio.sleep(0)
    began: list[int] = []
    with pytest.raises(LookupError, match="Crowded"):
        await lanes.run(began.append, 1)
    assert await holding is False
    assert await lanes.run(int, "7") == 7
    assert began == []
    await asyncio.to_thread(lanes.close)


async def test_a_line_with_a_bound_refuses_at_once_what_is_beyond() -> None:
    lanes = Lanes(1, most=2, explain=lambda error: LookupError(type(error).__name__))
    started, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        started.set()
        go_on.wait(BOUND)

    holding = asyncio.ensure_future(lanes.run(hold))
    await asyncio.to_thread(started.wait, BOUND)
    waiting = [asyncio.ensure_future(lanes.run(int, "7")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(LookupError, match="Crowded"):
        await lanes.run(int, "8")
    go_on.set()
    assert await asyncio.gather(*waiting) == [7, 7]
    await holding
    await asyncio.to_thread(lanes.close)


async def test_who_waited_through_a_call_that_was_left_without_an_answer_is_told_so() -> None:
    began, released = threading.Event(), threading.Event()
    unanswered = -math.inf

    def hang() -> None:
        nonlocal unanswered
        began.set()
        assert released.wait(BOUND)
        unanswered = time.monotonic()

    lanes = Lanes(1, unanswered=lambda: unanswered, explain=lambda error: LookupError(type(error).__name__))
    done: list[str] = []
    hanging = asyncio.ensure_future(lanes.run(hang))
    assert await asyncio.to_thread(began.wait, BOUND)
    waiting = asyncio.ensure_future(lanes.run(done.append, "waited"))
    in_line = asyncio.ensure_future(lanes.run_soon(lambda: done.append("in line"), seconds=BOUND, most=2))
    surely = asyncio.ensure_future(lanes.run_surely(lambda: done.append("cleaned up")))
    await asyncio.sleep(FRESH_SECONDS + 0.05)
    fresh = asyncio.ensure_future(lanes.run(done.append, "fresh"))
    await asyncio.sleep(0)
    released.set()
    await asyncio.gather(hanging, surely, fresh)
    for told in (waiting, in_line):
        with pytest.raises(LookupError, match=r"^Unanswered$"):
            await told
    assert done == ["cleaned up", "fresh"]
    lanes.close()


async def test_a_call_knows_for_how_long_its_caller_has_patience() -> None:
    lanes = Lanes(1, patience=BOUND)
    assert 0 < await lanes.run(seconds_left) <= BOUND
    assert 0 < await lanes.run_soon(seconds_left, seconds=1.0, most=1) <= 1.0
    assert seconds_left() == math.inf
    lanes.close()
