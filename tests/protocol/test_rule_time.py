"""Rules that take long do not hold up the process: by the order in which decisions are made, and by what the thread
does between two looks of somebody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from taskhub.core.errors import LimitReached
from taskhub.core.records import ToolRecord
from taskhub.core.rules import MAX_RULES, Client, Rule, RuleList, Then, Verdict
from taskhub.domain.rules.decisions import Rules, Steps
from taskhub.domain.rules.expressions import Values
from taskhub.protocol.rule_time import MOST_WAITING, SHARE_MS, TURN_MS, RuleTime
from tests.domain.rules.test_decisions import CI, DEPLOY

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
HOSTILE, ORDINARY = 1, 2
MANY = {"many": [f"item {n}" for n in range(100)]}


def rules(*when: str) -> Rules:
    return Rules(RuleList(1, tuple(Rule(name=f"r{n}", when=text, then=Then.DENY) for n, text in enumerate(when))))


def heavy() -> Rules:
    """As many rules as there may be, each of which looks at every item of a list, for any tool."""
    return rules(*(f"args.many.exists(i, i == 'other {n}' || i == 'one {n}')" for n in range(MAX_RULES)))


def light() -> Rules:
    return rules("tool.name == 'deploy' && args.environment == 'production'", "tool.readOnly")


def deciding(
    listed: Rules, arguments: dict[str, Any], client: Client = CI, tool: ToolRecord = DEPLOY
) -> Steps[Verdict]:
    return listed.deciding(client, tool, arguments, program="", now=NOON)


def test_it_is_decided_as_ever() -> None:
    async def run() -> None:
        within = RuleTime()
        listed = rules(
            *(f"args.many.exists(i, i == 'item {n}')" for n in range(200, 100, -1)), "args.many[0] == 'item 0'"
        )
        for _ in range(3):
            found = await within.run(HOSTILE, deciding(listed, MANY))
            assert found == listed.decide(CI, DEPLOY, MANY, program="", now=NOON)
            assert found.rule is not None
        hides = Rules(RuleList(1, (Rule(name="h", when="tool.name == 'deploy'", then=Then.HIDE),)))
        assert (await within.run(ORDINARY, hides.finding_hidden(CI, DEPLOY))) == hides.listed.rules[0]
        assert (await within.run(ORDINARY, deciding(rules(), {}))).then is Then.ALLOW

    asyncio.run(run())


def test_a_call_of_another_tenant_is_decided_between_two_turns() -> None:
    """Fifty calls with the heaviest rules were there before, and none of them has ended when the other's has."""
    ended: list[int] = []

    async def call(within: RuleTime, tenant: int, listed: Rules, arguments: dict[str, Any]) -> None:
        await within.run(tenant, deciding(listed, arguments))
        ended.append(tenant)

    async def run() -> None:
        within, theirs, ours = RuleTime(), heavy(), light()
        hostile = [asyncio.ensure_future(call(within, HOSTILE, theirs, MANY)) for _ in range(50)]
        await asyncio.ensure_future(call(within, ORDINARY, ours, {"environment": "first"}))
        assert ended == [ORDINARY]
        for n in range(4):
            await asyncio.ensure_future(call(within, ORDINARY, ours, {"environment": f"e{n}"}))
        assert ended.count(HOSTILE) <= 1
        await asyncio.gather(*hostile)
        assert ended.count(HOSTILE) == 50, "each is decided in the end"

    asyncio.run(run())


def test_no_decision_holds_the_loop_for_long() -> None:
    """By the clock of the thread, from each look of somebody else to the next: a turn and the expression with which it
    ends, and never the whole list."""
    held: list[float] = []

    async def look(over: asyncio.Event) -> None:
        last = time.thread_time()
        while not over.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            held.append(now - last)
            last = now

    async def run() -> float:
        within, theirs, over = RuleTime(), heavy(), asyncio.Event()
        began = time.thread_time()
        theirs.decide(CI, DEPLOY, MANY, program="", now=NOON)
        whole = time.thread_time() - began
        looker = asyncio.ensure_future(look(over))
        await asyncio.sleep(0)
        await asyncio.gather(*(within.run(HOSTILE, deciding(theirs, MANY)) for _ in range(3)))
        over.set()
        await looker
        return whole

    whole = asyncio.run(run())
    assert whole > 3 * TURN_MS / 1000, "it would have held it for long"
    held.sort()
    # The first look is after the first turns of the three; and the collector of garbage may come now and then.
    assert len(held) > 10
    assert held[len(held) * 9 // 10] < 3 * TURN_MS / 1000


def _spending(milliseconds: float) -> Steps[None]:
    """Rules that take so long, in steps."""
    values = Values({})
    for _ in range(int(milliseconds * 5)):
        until = time.thread_time() + 0.0002
        while time.thread_time() < until:
            pass
        yield values


def test_a_tenant_that_has_used_its_share_waits_for_turns_and_another_does_not() -> None:
    def counted(seen: list[str], name: str) -> Iterator[Values]:
        seen.append(name)
        yield Values({})

    async def run() -> None:
        within = RuleTime(clock=lambda: 0.0)
        await within.run(HOSTILE, _spending(SHARE_MS + 50))
        seen: list[str] = []
        waits = asyncio.ensure_future(within.run(HOSTILE, _spending(20)))
        await asyncio.sleep(0)
        late = asyncio.ensure_future(within.run(HOSTILE, counted(seen, "late")))
        await asyncio.sleep(0)
        await within.run(ORDINARY, counted(seen, "other"))
        assert seen == ["other"]
        await asyncio.gather(waits, late)
        assert seen == ["other", "late"]

    asyncio.run(run())


def test_too_many_that_wait_are_refused_and_cost_nobody_else() -> None:
    async def run() -> None:
        within = RuleTime(clock=lambda: 0.0)
        await within.run(HOSTILE, _spending(SHARE_MS + 50))
        waiting = [asyncio.ensure_future(within.run(HOSTILE, _spending(0.2))) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(LimitReached):
            await within.run(HOSTILE, _spending(0.2))
        await within.run(ORDINARY, _spending(0.2))
        waiting[50].cancel()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [one for one in done if one is not None] == [done[50]]
        assert await within.run(HOSTILE, _spending(0.2)) is None, "there is room again"

    asyncio.run(run())
