"""Processes that a command has started do not keep it alive for the hub, and do not outlive it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import psutil
import pytest

from taskhub.upstream import processes
from taskhub.upstream.outcomes import Faulted
from taskhub.upstream.pool import Pool
from tests.upstream import kit
from tests.upstream.kit import PARENT, call, text


async def left(pool: Pool, *, stubborn: bool = False) -> tuple[psutil.Process, psutil.Process]:
    """The command, and the process that it has left behind."""
    async with asyncio.timeout(10):
        command, child = text(await call(pool, "leave", {"stubborn": stubborn})).split()
    return psutil.Process(int(command)), psutil.Process(int(child))


@pytest.fixture
def _orphans() -> Iterator[None]:
    """Ends what a command has left behind, if the test fails."""
    yield
    for child in psutil.process_iter(["cmdline"]):
        if "time.sleep(600)" in " ".join(child.info["cmdline"] or ()):
            child.kill()


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.usefixtures("_orphans")
async def test_a_command_that_died_is_lost_although_its_pipes_are_open(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not told:  # by the system
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.setattr(processes, "LOOK_SECONDS", 0.1)
    async with kit.pool_of(PARENT) as pool:
        command, _ = await left(pool)
        running = asyncio.create_task(call(pool, "hold"))
        await kit.until(lambda: any(each.connection.calls for each in pool.sessions._of.values()), "the call")
        command.kill()
        outcome = await asyncio.wait_for(running, 10)
        assert isinstance(outcome, Faulted)
        assert outcome.lost
        again, _ = await left(pool)
        assert again.pid != command.pid


@pytest.mark.usefixtures("_orphans")
async def test_a_call_after_its_end_goes_to_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LAST_SECONDS", 60.0)  # it is not waited for
    async with kit.pool_of(PARENT) as pool:
        command, _ = await left(pool)
        (session,) = pool.sessions._of.values()
        command.kill()
        await kit.until(lambda: not session.connection.alive, "its end")
        again, _ = await left(pool)
        assert again.pid != command.pid


def ended(process: psutil.Process) -> bool:
    """Whether it has ended, if nobody has asked for its end yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.usefixtures("_orphans")
async def test_what_it_has_started_ends_with_it(stubborn: bool) -> None:
    async with kit.pool_of(PARENT) as pool:
        command, child = await left(pool, stubborn=stubborn)
    await kit.until(lambda: ended(child), "its end")
    assert ended(command)
