"""What a tool's output schema promises, and what becomes of a result that breaks or cannot keep it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import pytest

from taskhub.core.records import LogLine
from taskhub.upstream.outcomes import CallOutcome, Faulted, Finished
from tests.upstream import kit
from tests.upstream.kit import call
from tests.upstream.test_sieve import clumsy, tool

HOSTILE: Final = "a" * 40 + "!"


def said(outcome: CallOutcome) -> str:
    assert isinstance(outcome, Faulted), outcome
    return str(outcome.error["message"])


def promising(directory: Path, schema: Any, structured: Any) -> Any:
    """A command with one tool of this output schema that returns this."""
    result = {"content": [], "structuredContent": structured}
    return clumsy(directory, tools=[tool("promise", outputSchema=schema)], result=result)


def schema_of(word: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"word": word}}


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ({"type": "integer"}, 'is not of type "integer" at word'),
        ({"pattern": "^(a+)+$"}, 'does not match "^(a+)+$" at word'),
    ],
)
async def test_a_result_that_breaks_the_promise_fails_the_call(tmp_path: Path, word: Any, problem: str) -> None:
    async with kit.pool_of(promising(tmp_path, schema_of(word), {"word": HOSTILE})) as pool:
        started = time.monotonic()
        assert said(await call(pool, "promise")).endswith(problem)
        assert time.monotonic() - started < 5


async def test_a_result_without_the_promised_content_fails_the_call(tmp_path: Path) -> None:
    target = clumsy(tmp_path, tools=[tool("promise", outputSchema=schema_of({}))])
    async with kit.pool_of(target) as pool:
        assert "sent no structured content" in said(await call(pool, "promise"))


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ({"$ref": "https://example.com/word"}, "other documents are not read"),
        ({"pattern": r"^(?=(a+))((a|b|\1)+)+$"}, "more than 100,000 steps"),
        ({"type": "nonsense"}, "is not valid"),
    ],
)
async def test_a_result_that_cannot_be_checked_is_kept_and_the_task_says_so(
    tmp_path: Path, word: Any, why: str
) -> None:
    heard: list[LogLine] = []
    async with kit.pool_of(promising(tmp_path, schema_of(word), {"word": "ab" * 60 + "!"})) as pool:
        outcome = await call(pool, "promise", said=heard)
    assert isinstance(outcome, Finished), outcome
    (line,) = heard
    assert line.level == "warning"
    assert line.text.startswith("The result was not checked against the tool's output schema: ")
    assert why in line.text


async def test_a_promise_that_has_changed_is_read_again_before_a_result_fails(tmp_path: Path) -> None:
    async with kit.pool_of(promising(tmp_path, schema_of({"type": "integer"}), {"word": 1})) as pool:
        assert isinstance(await call(pool, "promise"), Finished)
        promising(tmp_path, schema_of({"type": "string"}), {"word": "one"})
        assert isinstance(await call(pool, "promise"), Finished)


async def test_lists_are_read_once_for_all_calls(tmp_path: Path) -> None:
    target = promising(tmp_path, schema_of({"type": "integer"}), {"word": 1})
    async with kit.pool_of(target) as pool:
        assert isinstance(await call(pool, "promise"), Finished)
        lists = tmp_path / "lists.json"
        lists.write_text(json.dumps({**json.loads(lists.read_text()), "tools": None}))  # it ends when it is asked
        assert isinstance(await call(pool, "promise"), Finished)
