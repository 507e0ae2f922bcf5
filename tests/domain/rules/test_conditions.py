"""Whether a tool could take an argument for the value of a rule: whatever is not surely another one."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.domain.rules.conditions import likeness
from tests.support.cost import cpu_seconds


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("production", "staging"),
        ("production", "prod"),
        (False, True),
        (100, 99),
        (100, 100.5),
        (2**53, 2**53 + 2),
        (["a", "b"], ["a", "c"]),
        (["a", "b"], ["a"]),
        (["a"], []),
        ("production", "pr\u043educti\u043en"),  # of Cyrillic: no reader of bytes takes it for the other
        ({"to": "prod"}, {"to": "test"}),
    ],
)
def test_what_is_surely_another_value_is_outside(wanted: Any, found: Any) -> None:
    assert likeness(found, wanted) == ""


@pytest.mark.parametrize(
    ("wanted", "found", "because"),
    [
        ("production", "production", "is"),
        (100, 100.0, "is"),
        (False, "false", "type"),
        (False, 0, "type"),
        (True, 1, "type"),
        (100, "100", "type"),
        ("100", 100, "type"),
        ("a", ["a"], "type"),
        ("production", None, "null"),
        (None, None, "is"),
        ("production", " Production\u200b", "like"),
        ("production", "ｐroduction", "like"),
        ("production", "prod\u00aduction\n", "like"),
        *[
            ("production", f"pro{sign}duction", "like")
            for sign in "\ufe0f\ufe00\u034f\u3164\uffa0\u2800\u180b\u17b4\u0301"
        ],
        ("production", "productıon", "like"),
        ("production", "PRODUCTİON", "like"),
        ("production", '["production"]', "type"),
        ("production", ' {"a": 1}', "type"),
        ("production", "x" * 1_001, "long"),
        (["prod"], ["test", "PROD"], "more"),
        (["prod"], ["prod", "prod"], "more"),
        (["prod"], ["test"] * 1_001, "long"),
        (2**53, 2**53 + 1, "like"),
        (10**400, 10**401, "like"),
        (["prod"], ["PROD"], "like"),
        ({"to": "prod"}, {}, "missing"),
        ({"to": True}, {"to": "true", "more": 1}, "type"),
        ({}, {}, "is"),
    ],
)
def test_what_may_be_meant_as_the_value_is_inside(wanted: Any, found: Any, because: str) -> None:
    assert likeness(found, wanted) == because


def test_comparing_takes_no_time_whatever_was_sent() -> None:
    # Putting accents in order takes time by the square of how many there are: 14 s for these.
    assert likeness("a" + "\u0301\u0327" * 80_000, "production") == "long"
    many = ["a" + "\u0301\u0327" * 499] * 1_000
    assert likeness(many, ["production"]) == ""
    assert cpu_seconds(lambda: likeness(many, ["production"]), tries=1) < 5
