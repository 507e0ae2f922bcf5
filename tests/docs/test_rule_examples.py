"""The expressions in docs/use/rules.md can be saved as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskhub.core.rules import Rule, Then
from taskhub.domain.rules.decisions import check_expressions
from taskhub.domain.rules.expressions import FUNCTIONS, LOOPS, MEMBERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "use" / "rules.md"
EXAMPLES = re.findall(r"```cel\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_an_expression(text: str) -> None:
    check_expressions([Rule(name="example", when=text, then=Then.ASK)])


def test_every_variable_and_function_is_told() -> None:
    told = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`([^`]+)`", PAGE.read_text(encoding="utf-8")))))
    members = {one.rpartition(".")[2] for one in told}
    assert [name for names in MEMBERS.values() for name in names if name not in members] == []
    assert (FUNCTIONS | LOOPS) - told == set()
