"""What a command writes to its output beside messages: logged, bounded, and never in the way of its calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psutil
import pytest

from taskhub.upstream.bounds import MAX_ANSWER
from taskhub.upstream.outcomes import Faulted
from taskhub.upstream.pool import Pool
from taskhub.upstream.stderr import LINES_PER_SECOND, LINES_SECONDS, MAX_LINE
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text

ANSWER = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"here"}]}}\n'
BEGUN = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"'
SHOP = Target("stdio", kit.OLD.target, name="shop")
MIB = "x" * 1_048_576
PATIENCE = 30.0


async def pour(pool: Pool, before: str, part: str, times: int, after: str) -> tuple[Any, float]:
    """The outcome of a call that has the command write this, and how many MiB the memory of this process grew by while
    it ran."""
    own, grown = psutil.Process(), 0
    before_it = own.memory_info().rss
    arguments = {"before": before, "part": part, "times": times, "after": after}
    calling = asyncio.ensure_future(call(pool, "pour", arguments))
    async with asyncio.timeout(PATIENCE):
        while not calling.done():
            await asyncio.wait({calling}, timeout=0.005)
            grown = max(grown, own.memory_info().rss - before_it)
    return calling.result(), grown / 1_048_576


async def test_a_line_without_an_end_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "taskhub.upstream.stderr")
    async with kit.pool_of(SHOP) as pool:
        assert text(await call(pool, "echo", {"text": "there"})) == "there"
        outcome, grown = await pour(pool, "", MIB, 100, f"\n{ANSWER}")
        assert text(outcome) == "here"
        assert grown < 16
    assert [record.getMessage() for record in caplog.records] == [f"server shop: {'x' * MAX_LINE}…"]


async def test_an_answer_that_is_too_long_fails_its_call_before_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with kit.pool_of(SHOP) as pool:
        pid = text(await call(pool, "pid"))
        outcome, grown = await pour(pool, BEGUN, MIB, 100, "")
        assert isinstance(outcome, Faulted)
        assert outcome.error["message"].endswith(f"it answered with a line of more than {MAX_ANSWER} bytes")
        assert outcome.lost is False
        assert grown < 8 * MAX_ANSWER / 1_048_576
        outcome, _ = await pour(pool, "\n", "", 0, ANSWER)
        assert text(outcome) == "here"
        assert text(await call(pool, "pid")) == pid
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("part", ["{}\n", "x\n", "\n"])
async def test_a_flood_of_lines_is_counted(part: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "taskhub.upstream.stderr")
    began = time.monotonic()
    async with kit.pool_of(SHOP) as pool:
        outcome, grown = await pour(pool, "", part, 5_000, ANSWER)
        assert text(outcome) == "here"
        assert grown < 16
    # After the burst each line comes with one that counts those before it, and one counts the last.
    most = LINES_PER_SECOND * (LINES_SECONDS + 2 * (time.monotonic() - began)) + 3
    assert len(caplog.records) <= most, {record.name for record in caplog.records}


async def test_what_it_says_is_handed_on_without_secrets() -> None:
    heard: list[str] = []
    target = Target("stdio", f"env TOKEN=sw0rdfish {kit.OLD.target}", name="shop")
    async with kit.pool_of(target) as pool:
        pool.on_line = heard.append
        await call(pool, "say", {"lines": ["my token is sw0rdfish", "", ANSWER.strip()]})
    assert heard == ["my token is •••"]
