"""The expressions in docs/use/rules.md can be saved as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskhub.domain.rules.expressions import compiled

PAGE = Path(__file__).resolve().parents[2] / "docs" / "use" / "rules.md"
EXAMPLES = re.findall(r"```cel\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_an_expression(text: str) -> None:
    assert compiled(text).text == text
