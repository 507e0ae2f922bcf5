"""No rule without a test, no test without a rule: read from the source, so nothing need run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.protocol.requirements import REQUIREMENTS

HERE = Path(__file__).parent
OWN = {"test_manifest.py", "test_schema.py"}
"""Tests of the tests: their functions need no rule."""


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


@pytest.mark.parametrize("rule", [rule for rule, (state, _) in REQUIREMENTS.items() if state == "covered"])
def test_a_covered_rule_has_a_test(rule: str) -> None:
    assert _proved().get(rule), f"{rule} is called covered, and no test names it"


@pytest.mark.parametrize("rule", [rule for rule, (state, _) in REQUIREMENTS.items() if state == "deferred"])
def test_a_deferred_rule_says_why_and_has_no_test(rule: str) -> None:
    assert REQUIREMENTS[rule][1]
    assert rule not in _proved(), f"{rule} is called deferred and proved by {_proved()[rule]}"


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
