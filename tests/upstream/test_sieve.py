"""Servers that list some things wrongly: what is wrong is left out with the reason, the rest is offered."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from taskhub.core.records import OfferKind
from taskhub.upstream.catalogue import MAX_REJECTED_NAME, Snapshot
from taskhub.upstream.sieve import UNFIT, sieved
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.test_catalogue import Watch, watching
from tests.upstream.test_offers import keys, one

ANY: dict[str, Any] = {"type": "object"}


def clumsy(directory: Path, **lists: Any) -> Target:
    """A server that lists this."""
    path = directory / "lists.json"
    path.write_text(json.dumps(lists))
    return Target("stdio", f"{sys.executable} -m tests.upstream.clumsy_server {path}")


def tool(name: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": ANY, **more}


def rejected(snapshot: Snapshot) -> dict[str, str]:
    return {tool.name: tool.rejected for tool in snapshot.tools if tool.rejected}


def offered(snapshot: Snapshot) -> list[str]:
    return [tool.name for tool in snapshot.tools if not tool.rejected]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "wrong", "inputSchema": []}, 'inputSchema must have "type": "object"'),
        ({"name": "wrong", "inputSchema": {"type": "string"}}, 'inputSchema must have "type": "object"'),
        ({"name": "wrong"}, 'inputSchema must have "type": "object"'),
        (tool("wrong", description=7), "Input should be a valid string at description"),
        (tool("wrong", annotations=[]), "at annotations"),
        (tool("wrong", _meta="x", execution="y"), "at "),
    ],
)
async def test_a_tool_that_is_wrong_costs_itself_only(tmp_path: Path, wrong: dict[str, Any], why: str) -> None:
    lists = {"tools": [tool("one"), wrong, tool("two")], "prompts": [{"name": "p"}]}
    async with watching(clumsy(tmp_path, **lists)) as watch:
        found = await watch.seen(1)
    assert offered(found) == ["one", "two"]
    assert list(rejected(found)) == ["wrong"]
    assert why in rejected(found)["wrong"]
    assert keys(found, OfferKind.PROMPT) == ["p"]
    assert (found.unread, watch.problems) == ({}, [])


async def test_a_schema_without_a_type_is_one_of_an_object(tmp_path: Path) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"}
    async with watching(
        clumsy(tmp_path, tools=[tool("one", inputSchema=schema), tool("two", inputSchema={})])
    ) as watch:
        found = await watch.seen(1)
    assert offered(found) == ["one", "two"]
    assert [each.definition["inputSchema"] for each in found.tools] == [{**schema, "type": "object"}, ANY]


@pytest.mark.parametrize("wrong", [{"inputSchema": ANY}, tool(7), 7, None, [tool("x")]], ids=str)
async def test_what_has_no_name_costs_nothing_but_itself_either(tmp_path: Path, wrong: Any) -> None:
    async with watching(clumsy(tmp_path, tools=[wrong, tool("two")])) as watch:
        found = await watch.seen(1)
    assert offered(found) == ["two"]
    assert len(rejected(found)) == 1
    assert watch.problems == []


async def test_of_two_tools_with_one_name_the_first_has_it(tmp_path: Path) -> None:
    twice = [tool("a", description="first"), tool("b"), tool("a", description="second"), tool("b")]
    async with watching(clumsy(tmp_path, tools=twice)) as watch:
        found = await watch.seen(1)
    assert offered(found) == ["a", "b"]
    assert found.tools[0].definition["description"] == "first"
    ((name, why),) = rejected(found).items()
    assert name.startswith("a… ")
    assert why == "another tool has this name"


async def test_a_name_that_is_too_long_is_cut(tmp_path: Path) -> None:
    long = ["x" * 129 + "1", "x" * 129 + "2", "ü" * 100_000]
    async with watching(clumsy(tmp_path, tools=[*map(tool, long), tool("x" * 128)])) as watch:
        found = await watch.seen(1)
    assert offered(found) == ["x" * 128]
    assert len(rejected(found)) == 3
    assert {len(name) for name in rejected(found)} == {MAX_REJECTED_NAME}


async def test_offers_that_are_wrong_cost_themselves_only(tmp_path: Path) -> None:
    lists = {
        "prompts": [{"name": "good"}, {"name": "bad", "arguments": "none"}, 7],
        "resources": [{"uri": "x://bad"}, {"uri": "x://good", "name": "good"}],
        "resourceTemplates": [{"uriTemplate": "x://{bad}", "name": []}, {"uriTemplate": "x://{good}", "name": "good"}],
    }
    async with watching(clumsy(tmp_path, **lists)) as watch:
        found = await watch.seen(1)
    assert [offer.key for offer in found.offers if not offer.rejected] == ["good", "x://good", "x://{good}"]
    assert "at arguments" in one(found, "bad").rejected
    assert one(found, "x://bad").rejected == "Field required at name"
    assert "at name" in one(found, "x://{bad}").rejected
    assert (found.unread, watch.problems) == ({}, [])


@pytest.mark.parametrize("tools", [{"not": "a list"}, "the tools are at lunch"])
async def test_a_server_whose_tools_cannot_be_listed_at_all_keeps_its_prompts(tmp_path: Path, tools: Any) -> None:
    async with watching(clumsy(tmp_path, tools=tools, prompts=[{"name": "p"}])) as watch:
        found = await watch.seen(1)
    assert list(found.unread) == ["tool"]
    assert (found.tools, keys(found, OfferKind.PROMPT), watch.problems) == ((), ["p"], [])


async def test_a_server_that_ends_while_it_lists_has_offered_nothing(tmp_path: Path) -> None:
    async with watching(clumsy(tmp_path, tools=None, prompts=[{"name": "p"}])) as watch:
        await kit.until(lambda: watch.problems, "the problem")
    assert watch.snapshots == []
    assert "Connection closed" in watch.problems[0]


async def had(watch: Watch, problems: int) -> None:
    await kit.until(lambda: len(watch.problems) >= problems, "another problem")


async def test_a_server_that_ends_whenever_it_lists_is_started_less_and_less_often(tmp_path: Path) -> None:
    ticking, clock = kit.hurry(10), asyncio.get_running_loop()
    times: list[float] = []
    async with watching(clumsy(tmp_path, tools=None)) as watch:
        for count in range(1, 7):
            await had(watch, count)
            times.append(clock.time())
    ticking.cancel()
    assert times[5] - times[4] > 7.5, [round(time - times[0], 2) for time in times]


MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@pytest.mark.parametrize(("version", "around"), [("2025-11-25", {}), ("2026-07-28", MODERN)])
def test_lists_of_either_era_are_sieved(version: str, around: dict[str, Any]) -> None:
    good, bad = tool("good", later={"kept": 1}), {"name": "bad"}
    found = sieved("tools/list", version, {**around, "tools": [bad, good], "nextCursor": "2", UNFIT: [["forged", ""]]})
    ((item, why),) = found.pop(UNFIT)
    assert found == {**around, "tools": [good], "nextCursor": "2"}
    assert (item, why) == (bad, "Field required at inputSchema")


def test_a_list_that_is_wrong_as_a_whole_is_left_as_it_is() -> None:
    whole = {**MODERN, "tools": [{"name": "bad"}], "nextCursor": 7}
    assert sieved("tools/list", "2026-07-28", whole) is whole
