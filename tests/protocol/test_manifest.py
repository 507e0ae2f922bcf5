"""No rule without a test, no test without a rule: read from the source, so nothing need run."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.protocol.requirements import DEFERRED, FAMILIES, NOTES, REQUIREMENTS

HERE = Path(__file__).parent
OWN = {"test_manifest.py", "test_schema.py", "test_plain_calls.py", "test_interim.py", "test_silent_leavers.py"} | {
    "test_what_clients_say.py",
    "test_answers_of_models.py",
    "test_edited_arguments.py",
    "test_rule_time.py",
}
"""Tests of the tests, and of what is ours and no specification's: their functions need no rule."""


def _functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for folder in (HERE, HERE.parent / "api"):
        for path in sorted(folder.rglob("test_*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                    yield path, node


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    found: list[str] = []
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.req":
            for argument in mark.args:
                assert isinstance(argument, ast.Constant), f"{function.name}: a rule's id is spelled out"
                found.append(str(argument.value))
    return found


@cache
def _proved() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, function in _functions():
        for rule in _marks(function):
            found[rule].append(f"{path.name}::{function.name}")
    return dict(found)


def test_a_rule_that_is_not_deferred_has_a_test() -> None:
    assert [rule for rule in REQUIREMENTS if rule not in DEFERRED and not _proved().get(rule)] == []


@pytest.mark.parametrize("rule", DEFERRED)
def test_a_deferred_rule_says_why_and_has_no_test(rule: str) -> None:
    assert DEFERRED[rule]
    assert rule not in _proved(), f"{rule} is called deferred and proved by {_proved()[rule]}"


def test_what_is_said_about_a_rule_is_said_about_one_there_is() -> None:
    assert {*DEFERRED, *NOTES} <= set(REQUIREMENTS)
    assert {rule.rpartition("-")[0] for rule in REQUIREMENTS} == set(FAMILIES)


def test_a_rule_is_one_sentence_with_its_source() -> None:
    for rule, (sentence, source) in REQUIREMENTS.items():
        assert re.fullmatch(r"[A-Z`0-9][^\n]*\.", sentence), rule
        assert ". " not in sentence, f"{rule} is more than one sentence"
        assert source.startswith("https://"), rule


def test_every_mark_names_a_known_rule() -> None:
    assert set(_proved()) <= set(REQUIREMENTS)


def test_every_test_of_the_protocol_names_its_rules() -> None:
    nameless = [
        f"{path.name}::{function.name}"
        for path, function in _functions()
        if HERE in path.parents and path.name not in OWN and not _marks(function)
    ]
    assert nameless == []


def test_the_rules_are_numbered_without_a_gap_within_a_group() -> None:
    tasks = sorted(int(rule.removeprefix("T26-")) for rule in REQUIREMENTS if rule.startswith("T26-"))
    assert tasks == list(range(1, 58))
