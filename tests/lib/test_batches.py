"""Batches: calls of the same moment share one run in a lane."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest

from taskhub.lib.batches import Batches
from taskhub.lib.lanes import FRESH_SECONDS, Lanes

BOUND = 5.0


class Work:
    """Doubles numbers and remembers its batches; refuses 13, breaks on 99, waits while the gate is shut."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def __call__(self, items: list[int]) -> list[int | Exception]:
        self.batches.append(items)
        self.entered.release()
        assert self.gate.wait(BOUND)
        if 99 in items:
            raise RuntimeError("broken")
        return [ValueError("unlucky") if item == 13 else 2 * item for item in items]


async def test_what_comes_together_runs_together_and_everybody_gets_their_own(lanes: Lanes) -> None:
    work = Work()
    batches = Batches(lanes, work)
    assert await asyncio.gather(*(batches.run(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert work.batches == [[0, 1, 2, 3, 4]]


async def test_no_batch_is_longer_than_allowed(lanes: Lanes) -> None:
    work = Work()
    batches = Batches(lanes, work, most=3)
    assert await asyncio.gather(*(batches.run(n) for n in range(8))) == [2 * n for n in range(8)]
    assert sorted(map(len, work.batches)) == [2, 3, 3]


async def test_what_comes_while_enough_is_under_way_gathers(lanes: Lanes) -> None:
    work = Work()
    work.gate.clear()
    batches = Batches(lanes, work, under_way=1)
    first = asyncio.ensure_future(batches.run(1))
    assert await asyncio.to_thread(work.entered.acquire, timeout=BOUND)
    rest = [asyncio.ensure_future(batches.run(n)) for n in (2, 3, 4)]
    await asyncio.sleep(0)
    work.gate.set()
    assert await asyncio.gather(first, *rest) == [2, 4, 6, 8]
    assert work.batches == [[1], [2, 3, 4]]


async def test_items_wait_for_more_until_the_batch_is_full_or_no_more_can_come(lanes: Lanes) -> None:
    work = Work()
    may_come = 5
    batches = Batches(lanes, work, most=3, gather=lambda n: BOUND if n < may_come else 0.0)
    started = time.monotonic()
    full = [asyncio.ensure_future(batches.run(1))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not work.batches
    full += [asyncio.ensure_future(batches.run(n)) for n in (2, 3)]
    await asyncio.gather(*full)
    may_come = 2
    last = [asyncio.ensure_future(batches.run(4))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    last.append(asyncio.ensure_future(batches.run(5)))
    await asyncio.gather(*last)
    assert work.batches == [[1, 2, 3], [4, 5]]
    assert time.monotonic() - started < BOUND


async def test_items_wait_for_more_no_longer_than_said(lanes: Lanes) -> None:
    work = Work()
    batches = Batches(lanes, work, gather=lambda n: 0.001)
    assert await asyncio.wait_for(batches.run(1), BOUND) == 2
    assert work.batches == [[1]]


async def test_an_error_of_one_is_its_own(lanes: Lanes) -> None:
    batches = Batches(lanes, Work())
    outcomes = await asyncio.gather(*(batches.run(n) for n in (12, 13, 14)), return_exceptions=True)
    assert outcomes[::2] == [24, 28]
    assert isinstance(outcomes[1], ValueError)


async def test_an_error_of_the_work_is_everybodys_and_the_next_batch_runs(lanes: Lanes) -> None:
    batches = Batches(lanes, Work())
    outcomes = await asyncio.gather(*(batches.run(n) for n in (98, 99)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError, RuntimeError]
    assert await batches.run(4) == 8


async def test_a_caller_that_goes_away_leaves_the_others_alone(lanes: Lanes) -> None:
    work = Work()
    work.gate.clear()
    batches = Batches(lanes, work)
    going, staying = asyncio.ensure_future(batches.run(1)), asyncio.ensure_future(batches.run(2))
    assert await asyncio.to_thread(work.entered.acquire, timeout=BOUND)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    work.gate.set()
    assert await asyncio.wait_for(staying, BOUND) == 4


async def test_who_waited_longer_than_the_lanes_have_patience_is_not_worked_on() -> None:
    # Long enough that a busy machine's pauses do not make the last one late as well.
    lanes = Lanes(1, patience=1.0, most=1, explain=lambda error: LookupError(type(error).__name__))
    work = Work()
    work.gate.clear()
    batches = Batches(lanes, work)
    first = asyncio.ensure_future(batches.run(1))
    assert await asyncio.to_thread(work.entered.acquire, timeout=BOUND)
    late = asyncio.ensure_future(batches.run(2))
    await asyncio.sleep(0)
    with pytest.raises(LookupError, match="Crowded"):  # the line is full
        await batches.run(3)
    await asyncio.to_thread(threading.Event().wait, 1.1)
    work.gate.set()
    with pytest.raises(LookupError, match="Crowded"):
        await late
    assert (await first, await batches.run(4)) == (2, 8)
    assert work.batches == [[1], [4]]
    await asyncio.to_thread(lanes.close)


async def test_who_waited_for_a_batch_that_was_left_without_an_answer_is_not_worked_on() -> None:
    unanswered = -math.inf
    lanes = Lanes(1, unanswered=lambda: unanswered, explain=lambda error: LookupError(type(error).__name__))
    work = Work()
    work.gate.clear()
    batches = Batches(lanes, work)
    first = asyncio.ensure_future(batches.run(1))
    assert await asyncio.to_thread(work.entered.acquire, timeout=BOUND)
    waiting = asyncio.ensure_future(batches.run(2))
    await asyncio.sleep(FRESH_SECONDS + 0.05)
    unanswered = time.monotonic()
    work.gate.set()
    assert await first == 2
    with pytest.raises(LookupError, match=r"^Unanswered$"):
        await waiting
    assert work.batches == [[1]]
    assert await batches.run(3) == 6
    lanes.close()
