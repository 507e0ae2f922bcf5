"""The connections to one server: whose loop they live in, how they end, and who waits for whom."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import psutil
import pytest

from taskhub.core.errors import Unavailable
from taskhub.upstream.connection import Profile
from taskhub.upstream.outcomes import CallOutcome
from taskhub.upstream.pool import Pool, give_up
from taskhub.upstream.sessions import Places
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.servers import gates


async def started(work: asyncio.Future[Any]) -> None:
    await kit.until(gates.entered.is_set, "the tool to start")
    assert not work.done()


def calling(pool: Pool, tool: str, **arguments: object) -> asyncio.Task[CallOutcome]:
    return asyncio.create_task(call(pool, tool, arguments))


# --- whose loop


async def test_an_in_process_server_runs_in_a_thread_of_its_own(workshop: Pool) -> None:
    assert text(await call(workshop, "thread_name")) == "server-the-server"


async def test_commands_and_http_servers_are_served_in_the_callers_loop() -> None:
    async def name() -> str:
        return threading.current_thread().name

    async with kit.pool_of(kit.OLD) as command, kit.pool_of(Target("http", "http://127.0.0.1:9/mcp")) as http:
        assert [await pool.run(name()) for pool in (command, http)] == [threading.current_thread().name] * 2


async def test_a_command_that_ends_over_what_it_does_not_know_is_started_anew_and_greeted_as_it_wants() -> None:
    async with kit.pool_of(Target("stdio", f"{kit.OLD.target} strict")) as pool:
        first = text(await call(pool, "pid"))
        assert text(await call(pool, "pid")) == first
        assert [child.pid for child in kit.children()] == [int(first)]
    await kit.until(lambda: kit.children() == [], "the end of the command")


async def test_what_the_work_raises_is_raised_here(workshop: Pool) -> None:
    async def fail() -> None:
        raise LookupError("in there")

    with pytest.raises(LookupError, match="in there"):
        await workshop.run(fail())


async def test_a_tool_that_blocks_its_thread_stops_neither_this_loop_nor_another_server(workshop: Pool) -> None:
    blocked = calling(workshop, "block")
    await started(blocked)
    async with kit.pool_of(kit.WORKSHOP) as other:
        assert text(await call(other, "echo", {"text": "free"})) == "free"
    assert not blocked.done()
    gates.opened.set()
    assert text(await blocked) == "let go"


# --- cancelling


async def test_cancelling_the_caller_cancels_the_tool_in_its_own_loop(workshop: Pool) -> None:
    held = calling(workshop, "hold")
    await started(held)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert gates.cancelled.is_set()
    assert gates.left.is_set()


async def test_cancelling_waits_until_the_tool_has_really_stopped(workshop: Pool) -> None:
    held = calling(workshop, "hold", linger=True)
    await started(held)
    held.cancel()
    await kit.until(gates.cancelled.is_set, "the tool to hear of it")
    done, _ = await asyncio.wait({held}, timeout=0.1)
    assert not done, "said to be cancelled while the tool still ran"
    gates.opened.set()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert gates.left.is_set()


async def test_a_second_cancellation_ends_the_waiting_for_a_tool_that_does_not_stop(workshop: Pool) -> None:
    blocked = calling(workshop, "block")
    await started(blocked)
    blocked.cancel()
    done, _ = await asyncio.wait({blocked}, timeout=0.1)
    assert not done
    blocked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(blocked, kit.BOUND)
    assert not gates.left.is_set()
    gates.opened.set()
    await kit.until(gates.left.is_set, "the tool to go on")


async def test_giving_up_needs_no_help_from_the_tool(workshop: Pool) -> None:
    blocked = calling(workshop, "block")
    await started(blocked)
    await give_up(blocked)
    assert blocked.cancelled()
    assert not gates.left.is_set()
    gates.opened.set()
    await kit.until(gates.left.is_set, "the tool to go on")


async def test_giving_up_what_is_done_changes_nothing(workshop: Pool) -> None:
    done = calling(workshop, "echo", text="kept")
    assert text(await done) == "kept"
    await give_up(done)
    assert text(done.result()) == "kept"


async def test_a_call_that_was_cancelled_leaves_no_connection_for_the_next(workshop: Pool) -> None:
    first = text(await call(workshop, "connection_number"))
    held = calling(workshop, "hold")
    await started(held)
    held.cancel()
    await asyncio.wait({held})
    assert text(await call(workshop, "connection_number")) != first


async def test_a_call_cancelled_while_its_command_still_starts_leaves_no_process() -> None:
    pool = Pool("slow", Target("stdio", f"{kit.OLD.target} silent"))
    connecting = calling(pool, "echo", text="x")
    try:
        await kit.until(kit.children, "the command")
        connecting.cancel()
        await asyncio.wait({connecting})
        await pool.close()
        await kit.until(lambda: kit.children() == [], "the end of the command", 0.5)
    finally:
        for child in kit.children():
            child.kill()
        # Without its process the connection fails, and its task ends.
        await kit.until(lambda: len(asyncio.all_tasks()) == 1, "its tasks to end")


# --- borrowing


async def test_calls_at_the_same_time_have_connections_of_their_own_and_the_next_uses_one_again(
    workshop: Pool,
) -> None:
    outcomes = await asyncio.gather(*(call(workshop, "connection_number", {"together": 5}) for _ in range(5)))
    numbers = {text(outcome) for outcome in outcomes}
    assert len(numbers) == 5
    assert text(await call(workshop, "connection_number")) in numbers


async def test_callers_with_other_capabilities_do_not_share_a_connection(workshop: Pool) -> None:
    plain = text(await call(workshop, "connection_number"))
    able = text(await call(workshop, "connection_number", client_capabilities={"sampling": {}}))
    assert able != plain
    assert text(await call(workshop, "connection_number")) == plain
    assert text(await call(workshop, "connection_number", client_capabilities={"sampling": {}})) == able


async def test_a_command_that_died_between_two_calls_is_started_again() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        before = int(text(await call(pool, "pid")))
        psutil.Process(before).kill()
        (session,) = pool.sessions.idle()
        await kit.until(lambda: not session.connection.alive, "the news of its end", 0.5)
        assert int(text(await call(pool, "pid"))) != before


async def test_a_server_that_cannot_be_reached_takes_no_room() -> None:
    async with kit.pool_of(Target("stdio", f"{kit.OLD.target} exit"), most=1, places=Places(1)) as pool:
        for _ in range(3):
            with pytest.raises(Unavailable):
                async with pool.borrow(Profile(), 1):
                    raise AssertionError("never reached")


# --- closing


async def test_closing_ends_the_command() -> None:
    async with kit.pool_of(kit.OLD) as pool:
        await call(pool, "pid")
        assert len(kit.children()) == 1
    assert kit.children() == []


async def test_closing_ends_the_thread_of_an_in_process_server() -> None:
    async with kit.pool_of(kit.WORKSHOP) as pool:
        await call(pool, "echo", {"text": "x"})
        (thread,) = (item for item in threading.enumerate() if item.name == "server-the-server")
    await kit.until(lambda: not thread.is_alive(), "the end of the thread")


async def test_a_command_in_use_when_its_pool_closes_finishes_its_call_and_ends() -> None:
    pool = Pool("old", kit.OLD)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def ask(*_: object) -> dict[str, object]:
        asked.set()
        await answered.wait()
        return {"action": "decline"}

    running = asyncio.create_task(call(pool, "ask", ask=ask))
    await asyncio.wait_for(asked.wait(), kit.BOUND)
    await pool.close()
    answered.set()
    assert text(await running) == '{"action": "decline"}'
    assert kit.children() == []


async def test_a_tool_that_runs_when_its_pool_closes_comes_to_some_end() -> None:
    pool = Pool("workshop", kit.WORKSHOP)
    running = calling(pool, "wait_for_gate")
    await started(running)
    await pool.close()
    gates.opened.set()
    done, _ = await asyncio.wait({running}, timeout=0.5)
    with contextlib.suppress(asyncio.CancelledError):
        await give_up(running)
    assert done, "nobody will ever hear of this call again"


async def test_closing_a_server_whose_thread_is_blocked_ends_in_time() -> None:
    pool = Pool("stuck", kit.WORKSHOP)
    blocked = calling(pool, "block")
    await started(blocked)
    ticking, clock = kit.hurry(), asyncio.get_running_loop()
    begin = clock.time()
    await pool.close()
    assert 4.5 < clock.time() - begin < 9
    ticking.cancel()
    assert not gates.left.is_set()
    await give_up(blocked)
    gates.opened.set()
    (thread,) = (item for item in threading.enumerate() if item.name == "server-stuck")
    await kit.until(lambda: not thread.is_alive(), "the end of the thread")
