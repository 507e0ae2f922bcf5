"""What crosses from loop to loop: in order, in its caller's context, one wake for a turn's calls."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator

import pytest
from typing_extensions import TypeVarTuple, Unpack

from taskhub.lib.crossing import Crossing

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


Ts = TypeVarTuple("Ts")


class Counting(asyncio.SelectorEventLoop):
    """A loop that counts how often another thread woke it."""

    woken = 0

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


@pytest.fixture
def there() -> Iterator[Counting]:
    loop = Counting()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    asyncio.SelectorEventLoop.call_soon_threadsafe(loop, loop.stop)
    thread.join(10)
    loop.close()


async def test_the_calls_of_a_turn_go_over_together_in_order_each_in_its_own_context(there: Counting) -> None:
    crossing, seen, done = Crossing(there), [], threading.Event()

    async def caller(name: str) -> None:
        WHO.set(name)
        crossing.call(lambda: seen.append((name, WHO.get(), threading.get_ident())))

    await asyncio.gather(*(caller(name) for name in "abc"))
    crossing.call(done.set)
    assert await asyncio.to_thread(done.wait, 10)
    assert [(name, who) for name, who, _ in seen] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert {thread for _, _, thread in seen} != {threading.get_ident()}
    assert there.woken <= 2


async def test_one_that_fails_keeps_no_other_from_running(there: Counting) -> None:
    crossing, failures, done = Crossing(there), [], threading.Event()
    there.set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise ValueError("no")

    crossing.call(fail)
    crossing.call(done.set)
    assert await asyncio.to_thread(done.wait, 10)
    assert [str(failure) for failure in failures] == ["no"]


def test_what_a_loop_left_behind_goes_over_with_the_next_call(there: Counting) -> None:
    crossing, seen, done = Crossing(there), [], threading.Event()

    async def call(function: Callable[[], object]) -> None:
        crossing.call(function)

    ended = asyncio.SelectorEventLoop()
    ended.call_soon(ended.stop)
    ended.create_task(call(lambda: seen.append("left behind")))
    ended.run_forever()  # one turn: what the call has set up for the next never happens
    ended.close()
    asyncio.run(call(done.set))
    assert done.wait(10)
    assert seen == ["left behind"]


async def test_to_a_loop_that_is_closed_nothing_goes() -> None:
    closed = asyncio.SelectorEventLoop()
    closed.close()
    crossing = Crossing(closed)
    crossing.call(lambda: None)
    crossing.hand_over()
    crossing.call(lambda: None)
    await asyncio.sleep(0)
