"""Tools of a 2025-11-25 server that can be called as tasks alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from taskhub.core.records import UpstreamTask
from taskhub.upstream.catalogue import Watcher
from taskhub.upstream.outcomes import Deferred
from taskhub.upstream.pool import Pool
from taskhub.upstream.session_tasks import only_as_tasks
from taskhub.upstream.target import Target
from tests.upstream.kit import call, pool_of, until
from tests.upstream.session_tasks_server import TOOLS as OFFERED

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


async def test_a_call_of_a_tool_that_runs_as_a_task_alone_is_deferred(pool: Pool) -> None:
    outcome = await call(pool, "wait")
    assert isinstance(outcome, Deferred)
    assert outcome.task.id.startswith("t0-")
    assert replace(outcome.task, id="") == UpstreamTask("", "2025-11-25", "working", "Begun", 100, here=True)


async def test_it_is_also_before_the_server_has_been_listed() -> None:
    async with pool_of(SERVER) as pool:
        assert isinstance(await call(pool, "wait"), Deferred)
        assert pool.only_as_tasks == set(OFFERED)


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
