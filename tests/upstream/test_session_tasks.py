"""Tools of a 2025-11-25 server that can be called as tasks alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from taskhub.core.records import LogLine
from taskhub.core.states import QuestionKind
from taskhub.upstream import session_tasks
from taskhub.upstream.call import Faulted, Finished
from taskhub.upstream.catalogue import Watcher
from taskhub.upstream.connection import Target
from taskhub.upstream.pool import Pool
from taskhub.upstream.session_tasks import only_as_tasks
from tests.upstream.kit import call, pool_of, text, until

SERVER = Target("stdio", f"{sys.executable} -m tests.upstream.session_tasks_server")
CAPABLE = {"tasks": {"requests": {"tools": {"call": {}}}}}
TOOLS = {"a": {"execution": {"taskSupport": "required"}}, "b": {"execution": {"taskSupport": "optional"}}, "c": {}}


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """The server, listed as a worker does."""
    async with pool_of(SERVER) as made:
        watcher = Watcher(made, on_snapshot=lambda snapshot: None, on_problem=lambda problem: None)
        watching = asyncio.create_task(watcher.run())
        await until(lambda: made.only_as_tasks, "the list")
        yield made
        watching.cancel()


async def test_the_call_has_the_tasks_result_without_what_names_the_task(pool: Pool) -> None:
    outcome = await call(pool, "research", {"topic": "bees"})
    assert text(outcome) == "about bees"
    assert isinstance(outcome, Finished)
    assert "_meta" not in outcome.result


async def test_what_the_task_asks_is_asked_of_the_call_and_its_messages_are_told(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_tasks, "POLL_RANGE_SECONDS", (0.01, 1.0))
    said: list[LogLine] = []

    async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        assert (kind, params["message"]) == (QuestionKind.ELICITATION, "Who?")
        await until(lambda: len(said) == 2, "a message")
        return {"action": "accept", "content": {"who": "Ada"}}

    assert text(await call(pool, "ask", ask=ask, said=said)) == "hello Ada"
    assert [line.text for line in said] == ["Begun", "Halfway"]


async def test_the_error_of_the_task_is_that_of_the_call(pool: Pool) -> None:
    outcome = await call(pool, "fail")
    assert isinstance(outcome, Faulted)
    assert outcome.error == {"code": -32050, "message": "out of paper"}


async def test_a_call_that_is_stopped_cancels_the_task(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    said: list[LogLine] = []
    calling = asyncio.create_task(call(pool, "wait", said=said))
    await until(lambda: said, "the task")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: any("cancelled t0" in line for line in caplog.messages), "its own word")


@pytest.mark.parametrize(
    ("protocol", "capabilities", "found"),
    [
        ("2025-11-25", CAPABLE, {"a"}),
        ("2025-06-18", CAPABLE, set()),
        ("2026-07-28", CAPABLE, set()),
        ("2025-11-25", {"tasks": {"list": {}}}, set()),
        ("2025-11-25", {}, set()),
    ],
)
def test_only_what_the_server_says_so_of_is_called_as_a_task(
    protocol: str, capabilities: dict[str, Any], found: set[str]
) -> None:
    assert only_as_tasks(protocol, capabilities, TOOLS) == found
