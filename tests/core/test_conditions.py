"""Whether a call falls under a rule: whatever is not surely outside it does."""

from __future__ import annotations

import time
from typing import Any

import pytest

from taskhub.domain.rules.conditions import met

PROD = {"environment": "production"}


def fits(schema: Any, arguments: Any) -> bool:
    return True


def why(conditions: dict[str, Any], arguments: dict[str, Any], schema: Any = None) -> dict[str, str] | None:
    return met(conditions, arguments, schema, fits)


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
    assert why({"x": wanted}, {"x": found}) is None


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
    assert why({"x": wanted}, {"x": found}) == {"x": because}


def test_comparing_takes_no_time_whatever_was_sent() -> None:
    # Putting accents in order takes time by the square of how many there are: 14 s for these.
    assert why(PROD, {"environment": "a" + "\u0301\u0327" * 80_000}) == {"environment": "long"}
    began = time.process_time()
    assert why({"x": ["production"]}, {"x": ["a" + "\u0301\u0327" * 499] * 1_000}) is None
    assert time.process_time() - began < 5


def test_an_absent_argument_is_inside_unless_the_schema_has_another_default() -> None:
    def schema(**rule: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {"environment": rule}}

    assert why(PROD, {}) == {"environment": "missing"}
    assert why(PROD, {}, schema(type="string")) == {"environment": "missing"}
    assert why(PROD, {}, schema(default="production")) == {"environment": "is"}
    assert why(PROD, {}, schema(default=None)) == {"environment": "null"}
    assert why(PROD, {}, schema(default="staging")) is None
    assert why(PROD, {"Environment": "staging"}) == {"environment": "missing"}


@pytest.mark.parametrize("schema", [None, True, [], {"properties": 7}, {"properties": {"environment": True}}])
def test_a_schema_without_rules_has_no_defaults(schema: Any) -> None:
    assert why(PROD, {}, schema) == {"environment": "missing"}


def test_every_condition_must_be_met_and_none_always_is() -> None:
    both = {"environment": "production", "count": 3}
    assert why({}, {"environment": "staging"}) == {}
    assert why(both, {"environment": "production", "count": "3"}) == {"environment": "is", "count": "type"}
    assert why(both, {"environment": "production", "count": 4}) is None


def test_a_value_that_does_not_fit_the_schema_is_inside() -> None:
    asked: list[Any] = []

    def no(schema: Any, value: Any) -> bool:
        asked.append((schema, value))
        return False

    stages = {"enum": ["production", "staging"]}
    schema = {"properties": {"environment": {"$ref": "#/$defs/stage"}, "n": True}, "$defs": {"stage": stages}}
    assert met({**PROD, "n": 1}, {"environment": "live", "n": 2}, schema, no) == {"environment": "unfit", "n": "unfit"}
    assert asked == [({"$ref": "#/$defs/stage", "$defs": {"stage": stages}}, "live"), (True, 2)]
    assert met(PROD, {"environment": "production"}, schema, no) == {"environment": "is"}
    assert len(asked) == 2
