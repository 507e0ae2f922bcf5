"""Hearing that a resource, or a list, has changed: from servers of either era."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer

from taskhub.core.records import LogLine, OfferKind
from taskhub.domain.relays.outcomes import Answered, RelayClaim
from taskhub.upstream import catalogue, sessions
from taskhub.upstream.catalogue import LOOK_SECONDS, Snapshot, Watcher
from taskhub.upstream.follow import covering
from taskhub.upstream.pool import Pool
from taskhub.upstream.relay import run_relay
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.library import library
from tests.upstream.old_http import OldHttpServer
from tests.upstream.test_offers import LIBRARY, keys, old


class Heard:
    """What a watcher told."""

    def __init__(self, pool: Pool) -> None:
        self.snapshots: list[Snapshot] = []
        self.problems: list[str] = []
        self.followed: list[frozenset[str]] = []
        self.updated: list[str] = []
        self.watcher = Watcher(
            pool,
            on_snapshot=self.snapshots.append,
            on_problem=self.problems.append,
            on_followed=self.followed.append,
            on_updated=lambda uris: self.updated.extend(sorted(uris)),
        )

    async def follows(self, *uris: str) -> None:
        self.watcher.follow(frozenset(uris))
        await kit.until(lambda: frozenset(uris) in self.followed, f"{uris} to be followed")


@asynccontextmanager
async def hearing(pool: Pool) -> AsyncIterator[Heard]:
    heard = Heard(pool)
    running = asyncio.create_task(pool.run(heard.watcher.run()))
    try:
        await kit.until(lambda: heard.snapshots, f"a first look, problems: {heard.problems}")
        yield heard
    finally:
        running.cancel()
        await asyncio.wait({running}, timeout=kit.BOUND)


def tools(snapshot: Snapshot) -> list[str]:
    return [tool.name for tool in snapshot.tools]


def tell(directory: Path, line: str) -> None:
    """Have the old server announce something, in its newest process."""
    newest = max(directory.iterdir(), key=lambda pipe: pipe.stat().st_mtime_ns)
    newest.write_text(line + "\n")


async def test_a_server_of_2026_tells_of_what_is_followed_and_of_nothing_else() -> None:
    async with kit.pool_of(LIBRARY) as pool, hearing(pool) as heard:
        await heard.follows("lib://note")
        await kit.call(pool, "touch", {"uri": "lib://bytes"})
        await kit.call(pool, "touch", {"uri": "lib://note"})
        await kit.until(lambda: heard.updated, "the update")
        await heard.follows("lib://note", "lib://bytes")
        await kit.call(pool, "touch", {"uri": "lib://bytes"})
        await kit.until(lambda: "lib://bytes" in heard.updated, "the other update")
    assert set(heard.updated) == {"lib://note", "lib://bytes"}
    assert heard.updated[0] == "lib://note"


async def test_a_server_of_2025_is_told_resource_by_resource(tmp_path: Path) -> None:
    target = old(tmp_path)
    async with kit.pool_of(target) as pool, hearing(pool) as heard:
        await heard.follows("old://file")
        await asyncio.to_thread(tell, tmp_path, "updated old://dir")
        await asyncio.to_thread(tell, tmp_path, "updated old://file")
        await kit.until(lambda: heard.updated, "the update")
        heard.watcher.follow(frozenset({"old://dir"}))
        await kit.until(lambda: frozenset({"old://dir"}) in heard.followed, "the change of mind")
        await asyncio.to_thread(tell, tmp_path, "updated old://file")
        await asyncio.to_thread(tell, tmp_path, "updated old://dir/part")
        await kit.until(lambda: len(heard.updated) > 1, "the other update")
    # What is part of a followed resource counts as the resource.
    assert heard.updated == ["old://file", "old://dir"]


async def test_after_a_gap_everything_followed_may_have_changed(tmp_path: Path) -> None:
    target = old(tmp_path)
    async with kit.pool_of(target) as pool, hearing(pool) as heard:
        await heard.follows("old://file", "old://dir")
        await asyncio.to_thread(tell, tmp_path, "die")
        await kit.until(lambda: len(heard.updated) == 2, f"news after the reconnection, {heard.problems}")
        assert heard.updated == ["old://dir", "old://file"]
        await kit.until(lambda: len(heard.followed) == 2, "both to be followed again")
        await asyncio.to_thread(tell, tmp_path, "updated old://dir")
        await kit.until(lambda: len(heard.updated) == 3, "an update through the new connection")


def busy(pool: Pool) -> bool:
    """Whether a session carries a call."""
    return any(each.connection.calls for each in pool.sessions._of.values())


async def test_what_a_client_changes_in_its_process_is_listed_for_nobody(tmp_path: Path) -> None:
    async with kit.pool_of(old(tmp_path)) as pool, hearing(pool) as heard:
        (child,) = kit.children()
        before = len(heard.snapshots)
        assert kit.text(await kit.call(pool, "old_tool", {"say": "learn new_tool"})) != str(child.pid)
        await kit.until(lambda: len(heard.snapshots) > before, "a look, since a list has changed")
        assert "new_tool" not in tools(heard.snapshots[-1])
        assert len(kit.children()) == 2
    assert heard.problems == []


async def test_a_shared_command_is_one_process_and_what_its_calls_change_is_heard(tmp_path: Path) -> None:
    async with kit.pool_of(old(tmp_path), shared=True) as pool, hearing(pool) as heard:
        await heard.follows("old://file")
        (child,) = kit.children()
        assert kit.text(await kit.call(pool, "old_tool", {"say": "learn new_tool"})) == str(child.pid)
        await kit.until(lambda: "new_tool" in tools(heard.snapshots[-1]), "the new tool")
        await kit.call(pool, "old_tool", {"say": "updated old://file"})
        await kit.until(lambda: heard.updated == ["old://file"], "the update")
        assert kit.children() == [child]
    assert heard.problems == []


async def test_a_command_that_announces_without_end_is_listed_now_and_then(tmp_path: Path) -> None:
    async with kit.pool_of(old(tmp_path), shared=True) as pool, hearing(pool) as heard:
        await kit.call(pool, "old_tool", {"say": "fidget on"})
        heard.watcher.refresh()
        begin, before = time.monotonic(), len(heard.snapshots)
        await kit.until(lambda: len(heard.snapshots) >= before + 4, "the looks")
        assert time.monotonic() - begin > 3 * LOOK_SECONDS


async def test_a_shared_command_is_listed_beside_its_calls() -> None:
    async with kit.pool_of(kit.NOTEBOOK, shared=True) as pool, hearing(pool) as heard:
        running = asyncio.create_task(kit.call(pool, "wait", {"seconds": 30}))
        await kit.until(lambda: busy(pool), "the call")
        heard.watcher.refresh()
        await kit.until(lambda: len(heard.snapshots) == 2, "the other look")
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})
        assert len(kit.children()) == 1
    assert heard.problems == []


async def test_a_command_that_is_busy_with_a_call_is_listed_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def ask(*_: object) -> dict[str, object]:
        asked.set()
        await answered.wait()
        return {"action": "decline"}

    monkeypatch.setattr(catalogue, "SNAPSHOT_SECONDS", 0.2)
    async with kit.pool_of(kit.OLD, shared=True) as pool, hearing(pool) as heard:
        running = asyncio.create_task(kit.call(pool, "ask", ask=ask))
        await asyncio.wait_for(asked.wait(), kit.BOUND)
        heard.watcher.refresh()
        done, _ = await asyncio.wait({running}, timeout=0.5)  # longer than a look may take
        assert not done
        answered.set()
        assert kit.text(await running) == '{"action": "decline"}'
        await kit.until(lambda: len(heard.snapshots) == 2, "the other look")
    assert heard.problems == []


async def test_a_command_that_heeded_no_cancellation_is_listed_anew_and_no_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "HEED_SECONDS", 0.2)
    async with kit.pool_of(kit.NOTEBOOK, shared=True) as pool, hearing(pool) as heard:
        (before,) = kit.children()
        said: list[LogLine] = []
        running = asyncio.create_task(kit.call(pool, "sleep", {"seconds": 60}, said=said))
        await kit.until(lambda: said, "the call to reach the process")
        running.cancel()
        await asyncio.wait({running})
        await kit.until(lambda: len(heard.snapshots) >= 2, "a look at the new process", 30.0)
        await kit.until(lambda: before.pid not in {child.pid for child in kit.children()}, "the end of the old one")
    assert heard.problems == []


async def test_what_an_older_server_says_in_the_stream_of_a_call_is_heard() -> None:
    with OldHttpServer() as server:
        async with kit.pool_of(server.target) as pool, hearing(pool) as heard:
            assert "grown" not in tools(heard.snapshots[0])
            await kit.call(pool, "grow")
            await kit.until(lambda: "grown" in tools(heard.snapshots[-1]), "the new tool")


@pytest.mark.parametrize("what", ["prompt", "resource"])
async def test_any_changed_list_has_all_read_again(what: str) -> None:
    async with kit.pool_of(LIBRARY) as pool, hearing(pool) as heard:
        await heard.follows()
        before = len(heard.snapshots)
        await kit.call(pool, "change", {"what": what})
        await kit.until(lambda: len(heard.snapshots) > before, "another look")
        if what == "prompt":
            assert "extra" in keys(heard.snapshots[-1], OfferKind.PROMPT)
            await kit.call(pool, "change", {"what": what})


@pytest.mark.parametrize("what", ["prompts", "resources"])
async def test_an_old_servers_announcements_count_too(tmp_path: Path, what: str) -> None:
    target = old(tmp_path)
    async with kit.pool_of(target) as pool, hearing(pool) as heard:
        before = len(heard.snapshots)
        await asyncio.to_thread(tell, tmp_path, f"list {what}")
        await kit.until(lambda: len(heard.snapshots) > before, "another look")


async def test_a_server_that_announces_nothing_is_no_problem() -> None:
    target = Target("python", "tests.upstream.library:bare")
    async with kit.pool_of(target) as pool, hearing(pool) as heard:
        heard.watcher.follow(frozenset({"x://1"}))
        heard.watcher.refresh()
        await kit.until(lambda: len(heard.snapshots) > 1, "another look")
    assert (heard.followed, heard.problems) == ([], [])


def test_an_update_is_about_the_resource_and_what_it_is_part_of() -> None:
    followed = ["x://a", "x://a/b/", "x://ab"]
    assert covering("x://a", followed) == {"x://a"}
    assert covering("x://a/b/c", followed) == {"x://a", "x://a/b/"}
    assert covering("x://abc", followed) == set()


class OverHttp(kit.HttpServer):
    """The library as a server with a URL. It can be started once."""

    def _tools(self) -> MCPServer[Any]:
        return library


async def test_a_server_with_a_url_is_read_and_followed_too() -> None:
    with OverHttp() as server:
        async with kit.pool_of(server.target) as pool, hearing(pool) as heard:
            assert keys(heard.snapshots[0], OfferKind.RESOURCE)[0] == "lib://note"
            claim = RelayClaim(1, 1, "s", "resources/read", {"uri": "lib://page/1"}, {}, 10.0)
            outcome = await pool.run(run_relay(pool, claim))
            assert isinstance(outcome, Answered)
            assert outcome.result["contents"][0]["text"] == "page 1"
            await heard.follows("lib://note")
            await kit.call(pool, "touch")
            await kit.until(lambda: heard.updated == ["lib://note"], "the update")
