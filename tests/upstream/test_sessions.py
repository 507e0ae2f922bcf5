"""Servers that keep something between calls: what belongs to one client stays its own, and nobody waits for another."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from taskhub.core.records import LogLine
from taskhub.core.states import QuestionKind
from taskhub.upstream import sessions as module
from taskhub.upstream.calls import WHOSE
from taskhub.upstream.outcomes import CallOutcome, Faulted, Postponed
from taskhub.upstream.pool import Pool
from taskhub.upstream.sessions import Places
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text
from tests.upstream.notebook_http import NotebookServer

A, B = 11, 22
"""Two clients."""


@pytest.fixture(params=["stdio", "http"])
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    """A server with a state, as a command and over HTTP."""
    if request.param == "stdio":
        async with kit.pool_of(kit.NOTEBOOK) as made:
            yield made
        return
    with NotebookServer() as server:
        async with kit.pool_of(server.target) as made:
            yield made


def calling(pool: Pool, tool: str, client: int = A, ask: Any = kit.nobody_answers, **given: Any) -> Any:
    return asyncio.create_task(call(pool, tool, given, context_id=client, ask=ask))


async def running(pool: Pool, count: int) -> None:
    """Wait until so many calls run."""
    await kit.until(
        lambda: sum(len(each.connection.calls) for each in pool.sessions._of.values()) == count, f"{count} calls"
    )


async def words(pool: Pool, client: int = A) -> str:
    return text(await call(pool, "words", context_id=client))


class People:
    """Who answers questions: all that come, when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may = asyncio.Event()

    async def __call__(self, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params["message"])
        await self.may.wait()
        return {"action": "accept", "content": {"word": f"answer to {params['message']}"}}


# --- whose state


async def test_each_client_finds_what_it_left_and_nothing_else(pool: Pool) -> None:
    for word in ("one", "two"):
        await asyncio.gather(*(call(pool, "remember", {"word": f"{word}-{who}"}, context_id=who) for who in (A, B)))
    assert [await words(pool, who) for who in (A, B)] == [f"one-{A} two-{A}", f"one-{B} two-{B}"]


async def test_first_calls_that_come_together_share_what_they_leave(pool: Pool) -> None:
    await asyncio.gather(*(call(pool, "remember", {"word": str(n)}, context_id=A) for n in range(6)))
    assert sorted((await words(pool)).split()) == [str(n) for n in range(6)]


async def test_programs_of_one_client_share_its_state_whatever_they_can_do() -> None:
    async with kit.pool_of(kit.NOTEBOOK) as pool:
        await call(pool, "remember", {"word": "x"}, context_id=A, client_capabilities={"sampling": {}, "roots": {}})
        assert await words(pool) == "x"
        assert len(kit.children()) == 1


@pytest.mark.parametrize("http", [False, True])
async def test_a_shared_server_is_one_for_all(http: bool) -> None:
    if http:
        with NotebookServer() as server:
            async with kit.pool_of(server.target, shared=True) as pool:
                await call(pool, "remember", {"word": "x"}, context_id=A)
                assert await words(pool, B) == "x"
        return
    async with kit.pool_of(kit.NOTEBOOK, shared=True) as pool:
        await call(pool, "remember", {"word": "x"}, context_id=A)
        assert await words(pool, B) == "x"
        assert len(kit.children()) == 1


async def test_a_state_that_was_lost_is_told_of_with_the_next_call() -> None:
    said: list[LogLine] = []
    async with kit.pool_of(kit.NOTEBOOK) as pool:
        await call(pool, "remember", {"word": "x"}, context_id=A)
        assert isinstance(await call(pool, "end", context_id=A), Faulted)
        assert text(await call(pool, "words", context_id=A, said=said)) == ""
        assert [line.level for line in said] == ["warning"]
        assert "lost: its process ended" in said[0].text
        await call(pool, "words", context_id=A, said=said)
        assert len(said) == 1


async def test_a_session_that_the_server_forgot_is_opened_anew_and_told_of() -> None:
    said: list[LogLine] = []
    with NotebookServer() as server:
        async with kit.pool_of(server.target) as pool:
            await call(pool, "remember", {"word": "x"}, context_id=A)
            server.sessions.clear()
            assert text(await call(pool, "words", context_id=A, said=said)) == ""
    assert "lost: its server forgot it" in said[0].text


async def test_the_process_of_a_client_is_known() -> None:
    async with kit.pool_of(kit.NOTEBOOK) as pool:
        pid = int(text(await call(pool, "pid", context_id=A)))
        assert pool.processes() == [pid]
    assert pool.processes() == []


# --- side by side


async def test_calls_of_one_client_run_side_by_side(pool: Pool) -> None:
    await words(pool)
    begin = time.monotonic()
    outcomes = await asyncio.gather(*(call(pool, "wait", {"seconds": 1}, context_id=A) for _ in range(4)))
    assert time.monotonic() - begin < 3.5
    assert [text(outcome) for outcome in outcomes] == [""] * 4


async def test_progress_and_over_http_log_lines_are_of_their_call(pool: Pool) -> None:
    said: dict[str, list[LogLine]] = {"a": [], "b": []}
    await asyncio.gather(
        *(call(pool, "say", {"word": word, "seconds": 0.2}, context_id=A, said=lines) for word, lines in said.items())
    )
    for word, lines in said.items():
        assert [line.text for line in lines if line.level == "progress"] == [word]
        logged = [line.text for line in lines if line.level == "info"]
        assert logged == [word] if pool.target.transport == "http" else word in logged


async def test_an_open_question_holds_up_nobody(pool: Pool) -> None:
    people = People()
    pool.resize(1)
    asking = calling(pool, "ask", ask=people)
    await kit.until(lambda: people.asked, "the question")
    begin = time.monotonic()
    assert await words(pool, B) == await words(pool, A) == ""
    assert time.monotonic() - begin < 3
    assert not asking.done()
    people.may.set()
    assert json.loads(text(await asking))["content"] == {"word": "answer to Which word?"}
    assert await words(pool, A) == ""


async def test_answers_reach_the_calls_that_asked_for_them(pool: Pool) -> None:
    people = People()
    asking = {word: calling(pool, "ask", ask=people, word=word) for word in ("x", "y", "z")}
    await kit.until(lambda: len(people.asked) == 3, "the questions")
    people.may.set()
    for word, each in asking.items():
        assert json.loads(text(await each))["content"] == {"word": f"answer to {word}"}


async def test_a_question_goes_on_when_the_call_it_was_taken_for_ends() -> None:
    first, second = People(), People()
    async with kit.pool_of(kit.NOTEBOOK) as pool:
        asking = calling(pool, "ask", ask=first)
        await kit.until(lambda: first.asked, "the question")
        other = calling(pool, "wait", ask=second, seconds=0.5)
        again = calling(pool, "ask", ask=first, word="again")
        await kit.until(lambda: len(first.asked) + len(second.asked) == 2, "the other question")
        await asyncio.wait({other})
        await kit.until(lambda: len(first.asked) == 2, "the question to be asked of a call that still runs")
        first.may.set()
        for each, word in ((asking, "Which word?"), (again, "again")):
            assert json.loads(text(await each))["content"] == {"word": f"answer to {word}"}


async def test_in_a_shared_process_no_client_is_asked_what_another_may_have_to_answer() -> None:
    async with kit.pool_of(kit.NOTEBOOK, shared=True) as pool:
        waiting = calling(pool, "wait", client=B, seconds=5)
        await running(pool, 1)
        assert json.loads(text(await call(pool, "ask", context_id=A)))["message"] == WHOSE
        waiting.cancel()


# --- cancelling


async def test_a_cancelled_call_leaves_the_others_and_the_state(pool: Pool) -> None:
    await call(pool, "remember", {"word": "kept"}, context_id=A)
    cancelled, other = calling(pool, "wait", seconds=30), calling(pool, "wait", seconds=0.5)
    await running(pool, 2)
    cancelled.cancel()
    begin = time.monotonic()
    await asyncio.wait({cancelled})
    assert time.monotonic() - begin < 5
    assert text(await other) == "kept"
    assert await words(pool) == "kept"


async def test_a_server_that_does_not_heed_a_cancellation_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEED_SECONDS", 0.3)
    said: list[LogLine] = []
    async with kit.pool_of(kit.NOTEBOOK) as pool:
        before = text(await call(pool, "pid", context_id=A))
        asleep: list[LogLine] = []
        deaf = asyncio.create_task(call(pool, "sleep", {"seconds": 60}, context_id=A, said=asleep))
        await kit.until(lambda: asleep, "the call to reach the process")
        deaf.cancel()
        await asyncio.wait({deaf})
        assert text(await call(pool, "pid", context_id=A, said=said)) != before
        assert "no longer answered" in said[0].text
        await kit.until(lambda: not psutil.pid_exists(int(before)), "its end")


# --- how many, and how long


async def test_an_idle_process_makes_room_and_a_busy_one_does_not() -> None:
    async with kit.pool_of(kit.NOTEBOOK, places=Places(1)) as pool:
        await call(pool, "remember", {"word": "x"}, context_id=A)
        assert await words(pool, B) == ""
        busy = calling(pool, "wait", client=B, seconds=30)
        await running(pool, 1)
        outcome: CallOutcome = await call(pool, "words", context_id=A)
        assert isinstance(outcome, Postponed)
        assert "place" in outcome.why
        busy.cancel()
        await asyncio.wait({busy})
        said: list[LogLine] = []
        assert text(await call(pool, "words", context_id=A, said=said)) == ""
        assert "made room" in said[0].text


@asynccontextmanager
async def with_idle_seconds(target: Target, seconds: float) -> AsyncIterator[Pool]:
    async with kit.pool_of(target) as pool:
        pool.sessions._idle_seconds = seconds
        yield pool


async def test_a_process_that_nobody_uses_is_ended() -> None:
    async with with_idle_seconds(kit.NOTEBOOK, 0.3) as pool:
        await words(pool)
        assert len(kit.children()) == 1
        used = calling(pool, "wait", seconds=0.6)
        assert text(await used) == ""
        assert len(kit.children()) == 1
        await kit.until(lambda: not kit.children(), "its end")


async def test_a_session_that_nobody_uses_is_ended() -> None:
    with NotebookServer() as server:
        async with with_idle_seconds(server.target, 0.1) as pool:
            await words(pool)
            await kit.until(lambda: not server.sessions, "its end")
