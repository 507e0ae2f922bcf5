"""Going on with a session that another connection opened, to poll the tasks that its server runs there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from taskhub.core.records import LogLine, Poll
from taskhub.upstream import resumed
from taskhub.upstream.deferred import AsksMore, Cancelled, GoesOn, Lost, PollOutcome, poll
from taskhub.upstream.outcomes import Deferred, Finished
from taskhub.upstream.pool import Pool
from tests.upstream.kit import call, make_claim, pool_of, until
from tests.upstream.session_tasks_http import SessionTasksServer

ADA = {"action": "accept", "content": {"who": "Ada"}}


@pytest.fixture
def server() -> Iterator[SessionTasksServer]:
    with SessionTasksServer() as made:
        yield made


async def made_by(pool: Pool, tool: str) -> Poll:
    """The poll of a call that the server runs as a task, in a session of this pool."""
    outcome = await call(pool, tool)
    assert isinstance(outcome, Deferred)
    return Poll(
        claim=make_claim(tool),
        upstream_id=outcome.task.id,
        revision=outcome.task.revision,
        status="working",
        turn=1,
        poll_ms=100,
        message="",
        cancelling=False,
        ended=False,
        overdue=False,
        ran_seconds=0.0,
        open_keys=frozenset(),
        answers={},
        errors={},
        used_keys=frozenset(),
        session=outcome.session,
    )


async def polled(pool: Pool, taken: Poll) -> PollOutcome:
    return await poll(pool, taken, say=_ignored)


def _ignored(line: LogLine) -> None:
    pass


async def test_the_session_goes_on_without_a_handshake_and_under_ids_of_its_own(server: SessionTasksServer) -> None:
    async with pool_of(server.target) as first:
        taken = await made_by(first, "research")
        assert isinstance(await polled(first, taken), GoesOn)
        async with pool_of(server.target) as second:
            assert list(server.sessions) == [taken.session]
            outcome = await polled(second, taken)
            assert isinstance(outcome, Finished)
            assert outcome.result["content"] == [{"type": "text", "text": "about None"}]
    assert len(server.ids) == len(set(server.ids)) > 3
    assert list(server.sessions) == [taken.session]


async def test_a_session_in_which_a_task_runs_outlives_its_connection_and_others_do_not(
    server: SessionTasksServer,
) -> None:
    async with pool_of(server.target) as pool:
        taken = await made_by(pool, "wait")
    assert list(server.sessions) == [taken.session]
    async with pool_of(server.target) as pool, pool.sessions.lend(7):
        assert len(server.sessions) == 2
    assert list(server.sessions) == [taken.session]


async def test_questions_are_heard_and_answered_in_it(server: SessionTasksServer) -> None:
    async with pool_of(server.target) as pool:
        taken = await made_by(pool, "ask")
    async with pool_of(server.target) as pool:
        outcome = await polled(pool, taken)
        assert isinstance(outcome, AsksMore)
        (question,) = outcome.questions
        answered = replace(taken, answers={question.upstream_key: ADA})
        await polled(pool, answered)
        await until(lambda: "completed" in server.sessions[taken.session].status.values(), "the answer")
        assert isinstance(await polled(pool, answered), Finished)


@pytest.mark.parametrize("number", ["ask-0", 5])
async def test_a_question_that_another_connection_heard_is_answered_by_its_id(
    server: SessionTasksServer, number: str | int
) -> None:
    async with pool_of(server.target) as first:
        taken = await made_by(first, "ask")
        tasks = server.sessions[taken.session]
        tasks.number = number
        outcome = await polled(first, taken)
        assert isinstance(outcome, AsksMore)
        answered = replace(taken, answers={outcome.questions[0].upstream_key: ADA})
        async with pool_of(server.target) as second:
            assert isinstance(await polled(second, answered), GoesOn)
            await until(lambda: "completed" in tasks.status.values(), "the answer")
            assert isinstance(await polled(second, answered), Finished)


async def test_where_the_server_has_forgotten_it_the_task_is_asked_for_in_a_new_one(server: SessionTasksServer) -> None:
    async with pool_of(server.target) as pool:
        taken = await made_by(pool, "wait")
    server.sessions.clear()
    async with pool_of(server.target) as pool:
        assert isinstance(await polled(pool, taken), Lost)
        assert pool.session_lost(taken.session)
        (session,) = server.sessions
        assert session != taken.session
        assert isinstance(await polled(pool, replace(taken, cancelling=True)), Cancelled)


async def test_a_connection_that_is_not_used_is_closed_and_made_again(
    server: SessionTasksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumed, "IDLE_SECONDS", 0.05)
    async with pool_of(server.target) as pool:
        taken = await made_by(pool, "wait")
    async with pool_of(server.target) as pool:
        async with pool.of_task(1, taken.revision, taken.session) as connection:
            assert connection.alive
            async with pool.of_task(1, taken.revision, taken.session) as same:
                assert same is connection
        await until(lambda: not connection.alive, "its end")
        assert isinstance(await polled(pool, taken), GoesOn)
        assert list(server.sessions) == [taken.session]
