"""A `python:` server in a process of its own: what it does to that process, it does to no other."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from taskhub.core.errors import Unavailable
from taskhub.core.records import LogLine
from taskhub.core.states import QuestionKind
from taskhub.core.versions import OF_CALLER, Version
from taskhub.domain.catalogue.sync import SyncedServer
from taskhub.upstream.call import Asked, Faulted
from taskhub.upstream.calls import ENDED
from taskhub.upstream.catalogue import take_snapshot
from taskhub.upstream.diagnosis import diagnosed
from taskhub.upstream.isolation import isolated
from taskhub.upstream.pool import ABLE, Pool
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text

A, B = 11, 22
"""Two clients."""
SESSIONS = {"elicitation": {}}


def target(spec: str = "tests.upstream.fragile:fragile", **fields: Any) -> Target:
    given: dict[str, Any] = {"prefix": "", "calls_at_once": 64, "own_process": True, **fields}
    return Target.of(SyncedServer(1, 1, "the-server", "python", spec, **given))


@asynccontextmanager
async def own(**fields: Any) -> AsyncIterator[Pool]:
    async with kit.pool_of(target(**fields), shared=True) as pool:
        yield pool


def calling(pool: Pool, tool: str, client: int = A, ask: Any = kit.nobody_answers, **fields: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(call(pool, tool, fields.pop("given", {}), context_id=client, ask=ask, **fields))


async def running(pool: Pool, count: int) -> None:
    """Wait until so many calls run."""
    await kit.until(
        lambda: sum(len(each.connection.calls) for each in pool.sessions._of.values()) == count, f"{count} calls"
    )


def lost(outcome: Any) -> bool:
    assert isinstance(outcome, Faulted), outcome
    assert "was lost while the tool ran: outcome unknown" in outcome.error["message"]
    return outcome.lost


async def word(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"word": f"answer to {params['message']}"}}


# --- one for all


async def test_all_clients_find_the_same_state_in_a_process_that_is_not_this_one() -> None:
    async with own() as pool:
        await call(pool, "remember", {"word": "x"}, context_id=A)
        assert text(await call(pool, "remember", {"word": "y"}, context_id=B)) == "x y"
        assert int(text(await call(pool, "pid"))) not in (0, os.getpid())
        assert len(kit.children()) == 1
    await kit.until(lambda: not kit.children(), "the end of the process")


async def test_it_is_given_what_a_command_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "of the hub")
    async with own(directory=str(tmp_path), environment=(("CITY", "Oslo"),)) as pool:
        *names, directory = text(await call(pool, "given")).split()
    assert directory == str(tmp_path)
    assert "CITY" in names
    assert not {"SECRET_KEY", "DATABASE_URL", "DJANGO_SETTINGS_MODULE"} & set(names)


async def test_a_low_level_server_is_served_too() -> None:
    async with kit.pool_of(target("tests.upstream.servers:bare"), shared=True) as pool, pool.look(ABLE) as connection:
        assert (await take_snapshot(connection)).info["name"] == "bare"


# --- its end


@pytest.mark.parametrize("tool", ["leave", "crash"])
async def test_its_end_loses_what_runs_in_it_and_the_next_call_starts_it_anew(tool: str) -> None:
    async with own() as pool, kit.pool_of(kit.NOTEBOOK) as other:
        before = int(text(await call(pool, "pid")))
        beside = calling(pool, "wait", B, given={"seconds": 60})
        elsewhere = calling(other, "wait", given={"seconds": 1})
        await running(pool, 1)
        assert lost(await call(pool, tool))
        assert lost(await beside)
        assert text(await elsewhere) == ""
        assert int(text(await call(pool, "pid"))) != before


async def test_code_that_exits_ends_its_process_only() -> None:
    async with own() as pool:
        assert lost(await call(pool, "leave_politely"))
        assert text(await call(pool, "remember", {"word": "x"})) == "x"


async def test_a_process_that_was_killed_is_started_again() -> None:
    async with own() as pool:
        os.kill(int(text(await call(pool, "pid"))), signal.SIGKILL)
        await kit.until(lambda: not any(each.connection.alive for each in pool.sessions._of.values()), "its end")
        assert text(await call(pool, "remember", {"word": "x"})) == "x"


# --- calls


async def test_calls_of_many_clients_run_side_by_side() -> None:
    async with own() as pool:
        waiting = [calling(pool, "wait", client, given={"seconds": 60}) for client in range(1, 9)]
        await running(pool, 8)
        assert text(await call(pool, "remember", {"word": "x"})) == "x"
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert text(await call(pool, "remember", {"word": "y"})) == "x y", "it heeds a cancellation, and goes on"


async def test_code_that_lets_nobody_run_is_ended_by_a_cancellation() -> None:
    async with own() as pool:
        await call(pool, "pid")
        held = calling(pool, "hold", given={"seconds": 60})
        await running(pool, 1)
        await asyncio.sleep(0)
        held.cancel()
        await asyncio.wait({held})
        assert text(await call(pool, "remember", {"word": "x"})) == "x"


async def test_a_line_is_said_to_its_caller_alone() -> None:
    async with own() as pool:
        said: dict[int, list[LogLine]] = {A: [], B: []}
        other = calling(pool, "wait", 33, given={"seconds": 60})
        await running(pool, 1)
        await asyncio.gather(*(call(pool, "say", {"word": f"of {c}"}, context_id=c, said=said[c]) for c in (A, B)))
        for client in (A, B):
            assert {line.text for line in said[client]} == {f"of {client}"}
            assert {line.level for line in said[client]} == {"info", "progress"}
        other.cancel()
        await asyncio.wait({other})


# --- questions


async def test_questions_reach_the_calls_that_they_belong_to() -> None:
    """In an era in which the server asks: by a pinned version, and of callers with sessions."""
    for pinned, revision in ((Version.MCP_2025_11_25, Version.MCP_2026_07_28), (OF_CALLER, Version.MCP_2025_11_25)):
        async with own(pinned=pinned) as pool:
            caller = {"client_capabilities": SESSIONS, "revision": revision}
            asked = [calling(pool, "ask", c, ask=word, given={"message": f"of {c}"}, **caller) for c in range(1, 9)]
            answers = [text(outcome) for outcome in await asyncio.gather(*asked)]
            assert answers == [f"answer to of {client}" for client in range(1, 9)]


async def test_an_open_question_holds_up_nobody_and_ends_with_its_call() -> None:
    class People:
        asked = asyncio.Event()

        async def __call__(self, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
            self.asked.set()
            await asyncio.sleep(60)
            raise AssertionError

    people = People()
    async with own(pinned=Version.MCP_2025_11_25) as pool:
        asking = calling(pool, "ask", A, ask=people, given={"message": "?"}, client_capabilities=SESSIONS)
        await people.asked.wait()
        assert text(await call(pool, "remember", {"word": "x"}, context_id=B)) == "x"
        asking.cancel()
        await asyncio.wait({asking})
        assert text(await call(pool, "remember", {"word": "y"}, context_id=B)) == "x y"


async def test_what_is_asked_after_a_call_is_asked_of_nobody() -> None:
    lines: list[str] = []
    async with own(pinned=Version.MCP_2025_11_25) as pool:
        pool.on_line = lines.append
        for client in (A, B):  # calls that run meanwhile, of both clients or of the one
            other = calling(pool, "wait", client, given={"seconds": 60}, client_capabilities=SESSIONS)
            await running(pool, 1)
            asked = await call(pool, "ask_behind", {"message": "?"}, context_id=A, client_capabilities=SESSIONS)
            assert text(asked) == "asks later"
            await kit.until(lambda: lines[-1:] == [ENDED], "the refusal")
            lines.clear()
            other.cancel()
            await asyncio.wait({other})


async def test_a_tool_asks_as_of_the_new_era_whatever_its_caller_speaks() -> None:
    answers = {"word": {"action": "accept", "content": {"word": "plum"}}}
    for pinned in ("", OF_CALLER):
        async with own(pinned=pinned) as pool:
            for revision in (Version.MCP_2026_07_28, Version.MCP_2025_11_25):
                asked = await call(pool, "ask_later", {"message": "?"}, revision=revision)
                assert isinstance(asked, Asked)
                again = await call(pool, "ask_later", {"message": "?"}, answers=answers, revision=revision)
                assert text(again) == "plum"


# --- what it says


async def test_what_it_prints_is_its_log() -> None:
    lines: list[str] = []
    async with own() as pool:
        pool.on_line = lines.append
        assert text(await call(pool, "output", {"word": "hello"})) == "", "and its standard input is empty"
        await kit.until(lambda: len(lines) == 3, "what it printed")
    assert lines == ["a line of its module", "hello", "{hello"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("tests.upstream.nowhere:server", "ModuleNotFoundError: No module named 'tests.upstream.nowhere'"),
        ("tests.upstream.fragile:nothing", "AttributeError: .* has no attribute 'nothing'"),
        ("tests.upstream.fragile:words", "TypeError: it is a list, and no MCPServer or Server of the MCP SDK"),
    ],
)
async def test_an_object_that_cannot_be_served_is_told_why(spec: str, why: str) -> None:
    async with kit.pool_of(target(spec), shared=True) as pool:
        with pytest.raises(Unavailable, match=why):
            async with pool.look(ABLE):
                pass


def test_its_connection_is_tested_step_by_step() -> None:
    good = list(diagnosed(target()))
    assert [(step.name, step.ok) for step in good] == [(n, True) for n in ("Program", "Start", "MCP", "Tools")]
    bad = list(diagnosed(target("tests.upstream.nowhere:server")))
    assert not bad[-1].ok
    assert "cannot import tests.upstream.nowhere:server" in bad[-1].says


# --- kept from what is ours


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_it_runs_as_another_user_and_behind_a_wrapper_as_a_command_does(settings: Any) -> None:
    settings.TASKHUB_COMMAND_USER = "nobody"
    settings.TASKHUB_COMMAND_WRAPPER = "env WRAPPED=yes"
    tried = isolated([sys.executable, "-c", "import mcp, tests"])
    if (await asyncio.to_thread(subprocess.run, tried, check=False)).returncode:
        pytest.skip("another user may not run this Python")
    async with own() as pool:
        said = text(await call(pool, "given")).split()
        process = psutil.Process(int(text(await call(pool, "pid"))))
        assert "WRAPPED" in said
        assert process.username() == "nobody"
