"""Schemas of strangers: every one gets a verdict in time, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any, Final

import psutil
import pytest

from taskhub.lib import schemas
from taskhub.lib.schema_process import CHECK_SECONDS, MAX_WORDS
from taskhub.lib.schemas import MAX_NESTING, PLAIN_COST, Checked, Checker, plain_cost, surely_fits

POINT: Final = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
NAMED: Final = {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": POINT}}
EITHER: Final = [{"properties": {"x": {"$ref": "#/$defs/a"}}, "required": [word]} for word in ("q", "y")]
RECURSIVE: Final = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": EITHER}}}
"""Each level of a value is looked at twice as often as the one above, and each look is put into words."""
TREE: Final = {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"below": {"items": {"$ref": "#/$defs/n"}}}}}}
BACKTRACKS: Final = {"pattern": r"^(?=(a+))((a|b|\1)+)+$"}


def nested(depth: int) -> dict[str, Any]:
    """That many schemas within the outermost, one in the other."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def doubling(steps: int) -> dict[str, Any]:
    """Each definition refers to the next twice."""
    defs: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(steps)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{steps}": {"type": "object"}}}


@pytest.fixture
def checker() -> Iterator[Checker]:
    made = Checker()
    yield made
    made.close()


def processes() -> list[psutil.Process]:
    """Those that still run. One that has ended stays a zombie until asyncio's watcher has taken its exit code."""

    def of_a_checker(one: psutil.Process) -> bool:
        try:
            return "schema_process" in " ".join(one.cmdline())
        except (psutil.ZombieProcess, psutil.NoSuchProcess):
            return False

    return [one for one in psutil.Process().children() if of_a_checker(one)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (POINT, {"x": 1}),
        (POINT, {"x": 10**30}),
        (NAMED, {"p": {"x": 1}}),
        (TREE, {"below": [{"below": []}]}),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 40}),
        ({"uniqueItems": True}, list(range(20_000))),
        (True, None),
    ],
)
async def test_what_fits_is_found_to_fit(checker: Checker, schema: Any, value: Any) -> None:
    assert await checker.check(schema, value) == Checked()


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (POINT, {"x": "1"}, '"1" is not of type "integer" at x'),
        (NAMED, {"p": {}}, '"x" is a required property at p'),
        (TREE, {"below": [{"below": [1, {"below": 5}]}]}, ""),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 40 + "!"}, 'does not match "^(a+)+$" at a'),
        (RECURSIVE, json.loads('{"x":' * 18 + "{}" + "}" * 18), "it does not fit"),
        (False, None, ""),
    ],
)
async def test_what_does_not_fit_is_named_with_its_place(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, schema: Any, value: Any, problem: str
) -> None:
    monkeypatch.setattr(schemas, "CHECK_SECONDS", 2.0)
    checked = await checker.check(schema, value)
    if schema is TREE:
        assert checked == Checked()  # `items` says nothing of what is no list
    else:
        assert checked.problem.endswith(problem)
        assert checked.problem
        assert not checked.unchecked


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nonsense"}, "is not valid"),
        ({"pattern": "["}, "regex"),
        ({"pattern": "(((a{500}){500}){500})"}, "regex"),
        (BACKTRACKS, "a pattern takes more than 100,000 steps"),
        ({"anyOf": [BACKTRACKS, {"type": "null"}]}, "a pattern takes more than 100,000 steps"),
        ({"$ref": "http://127.0.0.1:1/x"}, "other documents are not read"),
        ({"$ref": "file:///etc/hostname"}, "other documents are not read"),
        ({"$ref": "#/$defs/none"}, "/$defs/none"),
        ({"$schema": "https://example.com/own"}, "https://example.com/own"),
    ],
)
async def test_why_a_schema_cannot_be_checked_is_said(checker: Checker, schema: Any, why: str) -> None:
    checked = await checker.check(schema, "ab" * 60 + "!")
    assert why in checked.unchecked
    assert not checked.problem


async def test_a_check_that_would_take_for_ever_ends_in_time_and_holds_nobody_up(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "CHECK_SECONDS", 1.0)
    longest = 0.0

    async def live() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)

    living = asyncio.create_task(live())
    started = time.monotonic()
    checked = await checker.check(doubling(60), {})
    living.cancel()
    assert "more than" in checked.unchecked
    assert time.monotonic() - started < 5
    assert longest < 1.0
    assert processes() == []
    # It is not tried again, and others are checked as before.
    started = time.monotonic()
    assert await checker.check(doubling(60), {}) == checked
    assert time.monotonic() - started < CHECK_SECONDS / 2
    assert await checker.check({"pattern": "^a"}, "a") == Checked()


async def test_a_check_that_would_take_all_memory_ends(checker: Checker) -> None:
    deep = {"properties": {"a": {"items": {"oneOf": [{"pattern": f"^{n}"} for n in range(300)]}}}}
    checked = await checker.check(deep, {"a": ["x" * 500] * 8_000})
    assert checked.problem or checked.unchecked
    assert len(checked.problem) <= MAX_WORDS


async def test_words_are_short_and_have_their_beginning_and_end(checker: Checker) -> None:
    checked = await checker.check(POINT, {"x": "y" * 100_000})
    assert len(checked.problem) <= MAX_WORDS
    assert checked.problem.endswith('yyy" is not of type "integer" at x')


async def test_another_process_is_started_where_the_last_one_has_ended(checker: Checker) -> None:
    assert await checker.check({"pattern": "^a"}, "a") == Checked()
    (process,) = processes()
    process.kill()
    process.wait()
    assert await checker.check({"pattern": "^a"}, "b") == Checked(problem='"b" does not match "^a"')


async def test_a_closed_checker_leaves_no_process_and_no_verdict(checker: Checker) -> None:
    assert await checker.check({"pattern": "^a"}, "a") == Checked()
    checker.close()
    assert processes() == []
    assert (await checker.check({"pattern": "^a"}, "a")).unchecked
    assert processes() == []


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (POINT, True),
        (NAMED, True),
        (doubling(8), True),
        (doubling(40), False),
        (RECURSIVE, False),
        ({"pattern": "a"}, False),
        ({"patternProperties": {"a": True}}, False),
        ({"$defs": {"unused": {"pattern": "a"}}}, False),
        ({"uniqueItems": True}, False),
        ({**POINT, "x-fastmcp-wrap-result": True}, True),
        ({"propertyNames": {"maxLength": 3}}, True),
        ({"propertyNames": {"pattern": "a"}}, False),
        ({"items": {"$ref": "#"}}, False),
        ({"$ref": "https://example.com/x"}, False),
        (nested(MAX_NESTING), True),
        (nested(MAX_NESTING + 1), False),
    ],
)
def test_only_what_is_cheap_by_its_size_is_checked_at_once(schema: Any, plain: bool) -> None:
    assert (plain_cost(schema) <= PLAIN_COST) is plain


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "string"}, "a", True),
        ({"type": "string"}, 1, False),
        ({"pattern": "a"}, "a", False),
        ({"type": "no such type"}, "a", False),
        ({"type": "string"}, "\ud800", False),
    ],
    ids=["fits", "does not", "takes too long to tell", "no schema", "no text"],
)
def test_what_surely_fits_is_what_can_be_told_at_once(schema: Any, value: Any, fits: bool) -> None:
    assert surely_fits(schema, value) is fits
