"""The room for calls of one server: how many run at once, and which wait a moment first."""

from __future__ import annotations

import asyncio
import math

import pytest

from taskhub.upstream import pool
from taskhub.upstream.pool import Room


class Call:
    """A call that runs in a room until it is told to end."""

    def __init__(self, room: Room) -> None:
        self.began, self._end = asyncio.Event(), asyncio.Event()
        self._work = asyncio.create_task(self._run(room))

    async def _run(self, room: Room) -> None:
        async with room:
            self.began.set()
            await self._end.wait()

    async def end(self) -> None:
        self._end.set()
        await self._work

    async def give_up(self) -> None:
        self._work.cancel()
        await asyncio.wait({self._work})


async def started(*calls: Call) -> list[bool]:
    """Which of the calls run once nothing else is ready to go on."""
    for _ in range(10):
        await asyncio.sleep(0)
    return [call.began.is_set() for call in calls]


async def test_a_call_waits_while_as_many_run_as_begin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SOON_SECONDS", math.inf)
    room = Room(3, soon=1)
    calls = [Call(room) for _ in range(3)]
    assert await started(*calls) == [True, False, False]
    await calls[0].end()
    assert await started(*calls) == [True, True, False]
    await calls[2].give_up()
    await calls[1].end()
    last = Call(room)
    assert await started(last) == [True]
    await last.end()


async def test_a_call_that_has_waited_runs_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SOON_SECONDS", 0.001)
    room = Room(2, soon=1)
    first, second, third = (Call(room) for _ in range(3))
    await second.began.wait()
    assert room.locked()
    assert await started(first, third) == [True, False]
    await first.end()
    await third.began.wait()
    await second.end()
    await third.end()


async def test_after_the_late_calls_the_next_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SOON_SECONDS", 0.001)
    room = Room(2, soon=1)
    first, late = Call(room), Call(room)
    await late.began.wait()
    monkeypatch.setattr(pool, "SOON_SECONDS", math.inf)
    await late.end()
    third = Call(room)
    assert await started(third) == [False]
    await first.end()
    assert await started(third) == [True]
    await third.end()
