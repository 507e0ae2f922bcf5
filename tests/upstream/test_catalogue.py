"""What a server offers: read whole, vetted, and read again when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from pydantic import Field

from taskhub.core.records import TaskMode
from taskhub.upstream import catalogue
from taskhub.upstream.catalogue import Snapshot, Watcher, vetted
from taskhub.upstream.pool import Pool
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.old_server import UNKNOWN
from tests.upstream.servers import shelf

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


class Watch:
    """What a watcher reported."""

    def __init__(self, watcher: Watcher, snapshots: list[Snapshot], problems: list[str]) -> None:
        self.watcher, self.snapshots, self.problems = watcher, snapshots, problems

    async def seen(self, count: int) -> Snapshot:
        """The snapshot with that number, counted from one."""
        await kit.until(lambda: len(self.snapshots) >= count, f"snapshot {count}, problems: {self.problems}")
        return self.snapshots[count - 1]

    def digests(self) -> list[dict[str, str]]:
        return [{tool.name: tool.digest for tool in snapshot.tools} for snapshot in self.snapshots]


@asynccontextmanager
async def watching(target: Target, pool: Pool | None = None) -> AsyncIterator[Watch]:
    """A watcher that runs where its server lives, ended properly."""
    own = pool or Pool("watched", target)
    snapshots: list[Snapshot] = []
    problems: list[str] = []
    watcher = Watcher(own, on_snapshot=snapshots.append, on_problem=problems.append)
    running = asyncio.create_task(own.run(watcher.run()))
    try:
        yield Watch(watcher, snapshots, problems)
    finally:
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=kit.BOUND)
        if pool is None:
            await own.close()
        assert done, "the watcher does not stop"
        assert running.cancelled()


def names(snapshot: Snapshot) -> list[str]:
    return [tool.name for tool in snapshot.tools]


def described(snapshot: Snapshot, name: str) -> str:
    (found,) = (str(tool.definition["description"]) for tool in snapshot.tools if tool.name == name)
    return found


# --- looking


async def test_a_server_is_listed_with_what_it_says_of_itself() -> None:
    async with watching(kit.WORKSHOP) as watch:
        found = await watch.seen(1)
    assert found.protocol == "2026-07-28"
    assert (found.info["name"], found.info["version"]) == ("workshop", "1.2.3")
    assert {"echo", "point", "hold"} < set(names(found))
    (point,) = (tool for tool in found.tools if tool.name == "point")
    assert point.definition["outputSchema"]["required"] == ["x", "y"]
    assert watch.problems == []


async def test_an_old_command_is_listed_too() -> None:
    async with watching(kit.OLD) as watch:
        found = await watch.seen(1)
    assert (found.protocol, found.info) == ("2025-06-18", {"name": "old", "version": "0.9"})
    assert "echo" in names(found)
    assert kit.children() == []
    (unknown,) = (tool.definition for tool in found.tools if tool.name == "unknown")
    assert unknown == UNKNOWN


@pytest.mark.parametrize(("count", "page"), [(7, 3), (6, 3), (1, 3), (0, 3)])
async def test_all_pages_are_read_in_order(count: int, page: int) -> None:
    shelf.put(*(f"tool-{number}" for number in range(count)))
    shelf.page = page
    async with watching(kit.BARE) as watch:
        found = await watch.seen(1)
    assert names(found) == [f"tool-{number}" for number in range(count)]
    assert shelf.cursors == [None, *(str(start) for start in range(page, count, page))]


async def test_a_server_that_never_stops_listing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_TOOLS", 5)
    shelf.put(*(f"tool-{number}" for number in range(20)))
    shelf.page = 2
    async with watching(kit.BARE) as watch:
        found = await watch.seen(1)
    assert names(found) == [f"tool-{number}" for number in range(5)]
    assert shelf.cursors == [None, "2", "4"]


async def test_a_digest_stays_until_the_definition_changes() -> None:
    shelf.put("one", "two")
    async with watching(kit.BARE) as watch:
        await watch.seen(1)
        watch.watcher.refresh()
        await watch.seen(2)
        shelf.tools[0] = shelf.tools[0].model_copy(update={"description": "another"})
        watch.watcher.refresh()
        await watch.seen(3)
        first, same, changed = watch.digests()
    assert first == same
    assert changed["two"] == first["two"]
    assert changed["one"] != first["one"]
    assert len(first["one"]) == 64


async def test_what_a_server_announces_is_looked_at_again() -> None:
    async with kit.pool_of(kit.CHANGING) as pool, watching(kit.CHANGING, pool) as watch:
        await kit.call(pool, "redefine", {"description": "", "announce": False})
        assert "it" not in names(await watch.seen(1))
        # The first announcement may come before the watcher listens, so it is made until it is heard.
        async with asyncio.timeout(kit.BOUND):
            while not (watch.snapshots and "it" in names(watch.snapshots[-1])):
                await kit.call(pool, "redefine", {"description": "first"})
                await asyncio.sleep(0.01)
        before = len(watch.snapshots)
        await kit.call(pool, "redefine", {"description": "second"})
        await kit.until(
            lambda: any(
                tool.definition.get("description") == "second"
                for tool in watch.snapshots[-1].tools
                if tool.name == "it"
            ),
            "the new description",
        )
        assert len(watch.snapshots) > before
        digests = {found["it"] for found in watch.digests() if "it" in found}
        assert len(digests) == 2


async def test_a_server_that_announces_nothing_is_left_alone() -> None:
    async with kit.pool_of(kit.CHANGING) as pool, watching(kit.CHANGING, pool) as watch:
        await watch.seen(1)
        await kit.call(pool, "redefine", {"description": "quiet", "announce": False})
        for _ in range(5):
            assert kit.text(await kit.call(pool, "redefine", {"description": "quiet", "announce": False})) == "done"
        assert len(watch.snapshots) == 1


# --- arguments that go along in headers


async def test_arguments_are_mirrored_from_the_first_call_of_each_connection_on() -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool, watching(server.target, pool) as watch:
            await watch.seen(1)
            for capabilities in ({}, {}, {"sampling": {}}):
                reply = await kit.call(pool, "region", {"name": "eu"}, client_capabilities=capabilities)
                assert kit.text(reply) == "eu by eu"
            await kit.call(pool, "echo", {"text": "x"}, client_capabilities={"roots": {}})
        asked = [headers["mcp-method"] for headers in server.requests]
        sent = [headers.get("mcp-param-region") for headers in server.requests if headers.get("mcp-name") == "region"]
        assert sent == ["eu", "eu", "eu"]
        # The watcher's look, and one for each of two connections; the third called nothing that needs it.
        assert asked.count("tools/list") <= 4


async def test_a_header_that_is_new_is_learnt_with_the_next_look() -> None:
    with kit.HttpServer() as server:
        async with kit.pool_of(server.target) as pool, watching(server.target, pool) as watch:
            await watch.seen(1)
            await kit.call(pool, "region", {"name": "eu"})

            def region(name: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Place"})]) -> str:
                return name

            assert server.server is not None
            server.server.remove_tool("region")
            server.server.add_tool(region, structured_output=False)
            watch.watcher.refresh()
            await watch.seen(2)
            assert kit.text(await kit.call(pool, "region", {"name": "us"})) == "us"
        sent = [headers.get("mcp-param-place") for headers in server.requests if headers.get("mcp-name") == "region"]
        assert sent == [None, "us"]


# --- away


async def test_a_server_that_is_away_is_reported_and_found_when_it_is_back() -> None:
    server, ticking = kit.HttpServer(), kit.hurry()
    async with watching(server.target) as watch:
        await kit.until(lambda: watch.problems, "the problem")
        assert watch.snapshots == []
        assert "ConnectError" in watch.problems[0]
        with server:
            found = await watch.seen(1)
            assert names(found) == ["echo", "region"]
            # Whoever still listens would hold the server's shutdown up.
            watch.watcher.refresh()
            await watch.seen(2)
        before = len(watch.problems)
        watch.watcher.refresh()
        await kit.until(lambda: len(watch.problems) > before, "the news that it is away again")
        with server:
            assert names(await watch.seen(3)) == ["echo", "region"]
    ticking.cancel()


async def test_a_command_that_dies_is_missed_and_started_again() -> None:
    ticking = kit.hurry()
    async with watching(kit.OLD) as watch:
        await watch.seen(1)
        (child,) = kit.children()
        child.kill()
        await kit.until(lambda: watch.problems, "the problem", 1)
        await watch.seen(2)
        assert [other.pid for other in kit.children()] != [child.pid]
    ticking.cancel()


async def test_a_module_that_does_not_exist_is_reported_again_and_again_and_nothing_else_happens() -> None:
    async with watching(Target("python", "tests.upstream.nowhere:server")) as watch:
        await kit.until(lambda: len(watch.problems) >= 2, "two attempts")
        assert all("No module named" in problem for problem in watch.problems)
    assert watch.snapshots == []


# --- vetting


def listed(**changes: Any) -> Any:
    return vetted({"name": "tool", "inputSchema": SCHEMA, **changes})


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    turned = {"properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "type": "object"}
    assert vetted({"inputSchema": turned, "name": "tool"}).digest == listed().digest


@pytest.mark.parametrize(
    "change",
    [
        {"description": "x"},
        {"name": "tools"},
        {"inputSchema": {**SCHEMA, "required": ["a"]}},
        {"annotations": {"readOnlyHint": True}},
        {"_meta": {"x": 1}},
    ],
    ids=str,
)
def test_a_digest_depends_on_everything_else(change: dict[str, Any]) -> None:
    assert listed(**change).digest != listed().digest


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": ""}, "the name is not"),
        ({"name": "a" * 129}, "the name is not"),
        ({"name": "a b"}, "the name is not"),
        ({"inputSchema": {"type": "string"}}, "inputSchema must have"),
        ({"inputSchema": None}, "inputSchema must have"),
        ({"description": "x" * 65_536}, "the definition is larger than 65536 bytes"),
        ({"inputSchema": nested(16)}, "the definition is nested deeper than 32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tool_that_clients_must_not_see_says_why(change: dict[str, Any], why: str) -> None:
    assert listed(**change).rejected.startswith(why)


def test_a_header_that_cannot_be_sent_rejects_the_tool_of_a_server_that_would_want_it() -> None:
    for rule in ({"type": "array"}, {"type": "string", "x-mcp-header": "a b"}):
        schema = {"type": "object", "properties": {"a": {"x-mcp-header": "Region", **rule}}}
        definition = {"name": "tool", "inputSchema": schema}
        assert vetted(definition, modern=True).rejected.startswith("x-mcp-header: ")
        assert vetted(definition, modern=False).rejected == ""
    fine = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "Region"}}}
    assert vetted({"name": "tool", "inputSchema": fine}, modern=True).rejected == ""


@pytest.mark.parametrize(
    "change",
    [{}, {"name": "a" * 128}, {"name": "A-b_c.9"}, {"description": "x" * 60_000}, {"inputSchema": nested(10)}],
    ids=["plain", "long name", "signs", "large", "deep"],
)
def test_a_tool_within_the_limits_is_not_rejected(change: dict[str, Any]) -> None:
    assert listed(**change).rejected == ""


@pytest.mark.parametrize(
    ("change", "mode"),
    [
        ({}, None),
        ({"_meta": {"taskhub/task": "always"}}, TaskMode.ALWAYS),
        ({"_meta": {"taskhub/task": "never"}}, TaskMode.NEVER),
        ({"_meta": {"taskhub/task": "required"}}, TaskMode.REQUIRED),
        ({"_meta": {"taskhub/task": "sometimes"}}, None),
        ({"_meta": {"taskhub/task": 7}}, None),
        ({"execution": {"taskSupport": "required"}}, None),
        ({"execution": {"taskSupport": "optional"}}, None),
        ({"execution": {"taskSupport": "forbidden"}}, None),
        ({"_meta": {"taskhub/task": "never"}, "execution": {"taskSupport": "required"}}, TaskMode.NEVER),
    ],
    ids=str,
)
def test_a_tools_own_hint_says_how_it_wants_to_be_called(change: dict[str, Any], mode: TaskMode | None) -> None:
    assert listed(**change).hint_mode is mode


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        (None, (False, False)),
        ({"readOnlyHint": True}, (True, False)),
        ({"idempotentHint": True}, (False, True)),
        ({"readOnlyHint": "yes", "idempotentHint": 1}, (False, False)),
    ],
    ids=str,
)
def test_only_a_clear_word_makes_a_tool_repeatable(
    annotations: dict[str, Any] | None, found: tuple[bool, bool]
) -> None:
    tool = listed(annotations=annotations)
    assert (tool.read_only, tool.idempotent) == found


def test_text_that_no_json_can_carry_is_repaired_before_it_is_stored() -> None:
    tool = listed(description="half \ud800")
    assert tool.definition["description"].rstrip("\ufffd") == "half "
    assert tool.rejected == ""
