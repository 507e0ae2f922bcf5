"""Makes the tests of connections that people ask for in the console."""

from __future__ import annotations

import asyncio
import queue
from contextlib import suppress
from dataclasses import asdict, replace

from taskhub.core.errors import TaskHubError
from taskhub.domain.catalogue.connection_tests import TEST_SECONDS, TakenTest, store_steps
from taskhub.lib.lanes import Lanes
from taskhub.upstream.diagnosis import HUNG, Diagnosis, Step
from taskhub.upstream.pool import Pool, give_up
from taskhub.upstream.target import Target

LOOK_SECONDS = 0.2
"""Seconds between two times at which the ended steps are stored."""
ENDING_SECONDS = 10.0
"""Seconds of `TEST_SECONDS` in which the outcome is stored and the connection closed."""


async def make_test(lanes: Lanes, test: TakenTest, pool: Pool | None) -> None:
    """Test the connection, and store each step when it has ended. A `python:` server is tested in the thread of its
    `pool`, where its code runs. If that code blocks the thread, the test ends and the thread goes on."""
    row = test.server
    news: queue.SimpleQueue[Step | str] = queue.SimpleQueue()
    target = Target.of(row)
    if pool is not None and pool.target.bearer is not None:
        target = replace(target, bearer=pool.target.bearer)
        with suppress(TaskHubError):
            await pool.target.bearer.ready()
    work = Diagnosis(target, news.put).run()
    running = asyncio.ensure_future(work if pool is None or row.transport != "python" else pool.run(work))
    steps: list[Step] = []
    name = ""
    deadline = asyncio.get_running_loop().time() + TEST_SECONDS - ENDING_SECONDS
    while not running.done() and asyncio.get_running_loop().time() < deadline:
        await asyncio.wait({running}, timeout=LOOK_SECONDS)
        count = len(steps)
        while not news.empty():
            found = news.get()
            if isinstance(found, Step):
                steps.append(found)
            else:
                name = found
        if len(steps) > count and not running.done():
            await lanes.run(store_steps, test, [asdict(step) for step in steps], ended=False)
    if not running.done():
        await give_up(running)
        steps.append(Step(name, False, TEST_SECONDS - ENDING_SECONDS, HUNG))
    await lanes.run(store_steps, test, [asdict(step) for step in steps], ended=True)
