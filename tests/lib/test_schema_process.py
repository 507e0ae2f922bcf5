"""The process that checks: what it says on its pipes, to whoever starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from taskhub.lib import schema_process
from taskhub.lib.schema_process import BACKTRACK_LIMIT, HEAD, MAX_COMPILED

POINT: Final = {"properties": {"x": {"type": "integer"}}, "required": ["x"]}
HARD: Final = {"pattern": r"^(?=(a+))((a|b|\1)+)+$"}
GIVEN_UP: Final = f"a pattern takes more than {BACKTRACK_LIMIT:,} steps"


def asked(*questions: tuple[Any, Any]) -> list[str]:
    """What it says, after an end that is no failure, when all of these are asked and no more."""
    pairs = [(json.dumps(schema).encode(), json.dumps(value).encode()) for schema, value in questions]
    done = subprocess.run(
        [sys.executable, "-I", schema_process.__file__],
        input=b"".join(HEAD.pack(len(schema), len(value)) + schema + value for schema, value in pairs),
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


def test_each_question_is_answered_in_its_turn() -> None:
    said = asked((POINT, {"x": 1}), (POINT, {"x": "a"}), (POINT, {"x": 2}), (POINT, {}))
    assert said == ['fm"a" is not of type "integer" at x', 'fm"x" is a required property']


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (HARD, "ab" * 30 + "c", GIVEN_UP),
        (
            {"anyOf": [HARD, {"type": "integer"}]},
            "ab" * 30 + "c",
            f"a pattern takes more than {BACKTRACK_LIMIT:,} steps",
        ),
        ({"$ref": "https://a.example/schema"}, 1, "other documents are not read"),
        ({"type": "nothing"}, 1, "nothing"),
    ],
)
def test_what_cannot_be_checked_is_said_and_the_next_is_answered(schema: Any, value: Any, why: str) -> None:
    first, second = asked((schema, value), (POINT, {"x": 1}))
    assert first.startswith("u")
    assert why in first
    assert second == "f"


def test_more_schemas_than_it_keeps_are_answered_all_the_same() -> None:
    many = [({"const": number}, number) for number in range(MAX_COMPILED + 2)]
    assert asked(*many, many[0]) == ["f" * (MAX_COMPILED + 3)]
