"""Roots, for which many servers that people start by npx ask as soon as they are connected."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from mcp_types import TextContent

from taskhub.core.states import QuestionKind
from taskhub.upstream import roots
from taskhub.upstream.catalogue import take_snapshot
from taskhub.upstream.pool import ABLE
from taskhub.upstream.roots import NOBODY
from tests.upstream import kit
from tests.upstream.kit import call, text

CURIOUS = replace(kit.OLD, target=f"{kit.OLD.target} curious")
"""It asks when it is initialized, lists nothing before it has an answer, and tells with any call what came."""
ABLE_CALLER: dict[str, Any] = {"roots": {"listChanged": True}}
MINE = {"roots": [{"uri": "file:///srv/mine"}]}
REFUSED = {"code": NOBODY.code, "message": NOBODY.message}


async def mine(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    assert kind is QuestionKind.ROOTS
    await asyncio.sleep(0.05)  # a client is asked over the network
    return MINE


async def test_while_it_is_listed_it_hears_that_nobody_could_say() -> None:
    async with kit.pool_of(CURIOUS) as pool, pool.look(ABLE) as connection:
        assert [tool.name for tool in (await take_snapshot(connection)).tools]
        assert connection.client is not None
        result = await connection.client.session.call_tool("anything", {})
        assert [json.loads(block.text) for block in result.content if isinstance(block, TextContent)] == [REFUSED]


async def test_of_a_client_with_roots_it_gets_them_before_the_first_call() -> None:
    async with kit.pool_of(CURIOUS) as pool:
        first, second = await asyncio.gather(
            *(call(pool, "anything", client_capabilities=ABLE_CALLER, ask=mine) for _ in range(2))
        )
        assert (json.loads(text(first)), json.loads(text(second))) == (MINE, MINE)


async def test_a_caller_that_does_not_answer_holds_its_call_up_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roots, "GIVEN_SECONDS", 0.05)

    async def silent(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    async with kit.pool_of(replace(CURIOUS, target=f"{CURIOUS.target} hasty")) as pool:
        assert text(await call(pool, "anything", client_capabilities=ABLE_CALLER, ask=silent)) == "null"


async def test_of_a_client_without_roots_it_hears_so_and_is_not_told_that_there_are_any() -> None:
    async with kit.pool_of(CURIOUS) as pool:
        await call(pool, "anything")  # which it may get before its question is refused
        found = json.loads(text(await call(pool, "anything")))
        assert found == {"code": -32601, "message": "The caller of this tool has no roots"}
        assert "roots" not in json.loads(text(await call(pool, "capabilities")))
        able = await call(pool, "capabilities", context_id=2, client_capabilities=ABLE_CALLER, ask=mine)
        assert json.loads(text(able))["roots"] == {"listChanged": True}
