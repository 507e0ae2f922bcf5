"""A form's bounds, on both sides of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.domain.questions.forms import MAX_FIELDS, MAX_FORM, MAX_TEXT, checked_content, form_fields, unfit
from taskhub.lib import jsonx


def form(rule: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"it": rule}}


def problem(rule: dict[str, Any], value: Any) -> str:
    """Why the value does not fit; empty when it does."""
    try:
        assert checked_content(form(rule), {"it": value}) == {"it": value}
    except Invalid as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("bound", [-3, 0, 7, 10**20])
def test_a_number_may_be_its_bound_and_not_beyond(kind: str, bound: int) -> None:
    low, high = {"type": kind, "minimum": bound}, {"type": kind, "maximum": bound}
    assert [problem(low, bound + step) for step in (0, 1)] == ["", ""]
    assert [problem(high, bound + step) for step in (0, -1)] == ["", ""]
    assert problem(low, bound - 1) == f"it must be at least {bound}."
    assert problem(high, bound + 1) == f"it must be at most {bound}."


def test_a_broken_number_is_compared_as_it_came() -> None:
    rule = {"type": "number", "minimum": 0.5, "maximum": 1.5}
    assert [problem(rule, value) for value in (0.5, 1, 1.5)] == ["", "", ""]
    assert problem(rule, 0.4999999999999999) == "it must be at least 0.5."
    assert problem(rule, 1.5000000000000002) == "it must be at most 1.5."


def test_one_bound_is_not_the_other() -> None:
    rule = {"type": "integer", "minimum": 2, "maximum": 2}
    assert [bool(problem(rule, value)) for value in (1, 2, 3)] == [True, False, True]


@pytest.mark.parametrize("length", [1, 2, 40])
def test_a_text_may_be_as_long_as_its_bound_and_not_beyond(length: int) -> None:
    low, high = {"type": "string", "minLength": length}, {"type": "string", "maxLength": length}
    noun = "character" if length == 1 else "characters"
    assert [problem(low, "ü" * (length + more)) for more in (0, 1)] == ["", ""]
    assert [problem(high, "ü" * (length - less)) for less in (0, 1)] == ["", ""]
    assert problem(low, "ü" * (length - 1)) == f"it needs at least {length} {noun}."
    assert problem(high, "ü" * (length + 1)) == f"it takes at most {length} {noun}."


def test_no_text_is_within_a_bound_of_nothing() -> None:
    assert problem({"type": "string", "minLength": 0, "maxLength": 0}, "") == ""
    assert problem({"type": "string", "maxLength": 0}, "x") == "it takes at most 0 characters."


@pytest.mark.parametrize("count", [1, 2])
def test_choices_are_counted_to_the_bound(count: int) -> None:
    items = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
    low, high = {**items, "minItems": count}, {**items, "maxItems": count}
    noun = "choice" if count == 1 else "choices"
    assert [problem(low, list("abc")[: count + more]) for more in (0, 1)] == ["", ""]
    assert [problem(high, list("abc")[: count - less]) for less in (0, 1)] == ["", ""]
    assert problem(low, list("abc")[: count - 1]) == f"it needs at least {count} {noun}."
    assert problem(high, list("abc")[: count + 1]) == f"it takes at most {count} {noun}."


@pytest.mark.parametrize("bound", [-1, True, "3", 2.0, None])
def test_a_length_that_is_no_count_bounds_nothing(bound: Any) -> None:
    assert problem({"type": "string", "minLength": bound, "maxLength": bound}, "four") == ""


@pytest.mark.parametrize("bound", [True, "3", None])
def test_a_bound_that_is_no_number_bounds_nothing(bound: Any) -> None:
    assert problem({"type": "integer", "minimum": bound, "maximum": bound}, 0) == ""
    assert problem({"type": "integer", "minimum": bound, "maximum": bound}, 4) == ""


def test_the_longest_answer_fits_and_one_character_more_does_not() -> None:
    assert problem({"type": "string"}, "x" * MAX_TEXT) == ""
    assert problem({"type": "string"}, "x" * (MAX_TEXT + 1)) == "it is too long."


def test_a_field_may_want_the_longest_answer_and_no_longer_one() -> None:
    (field,) = form_fields(form({"type": "string", "minLength": MAX_TEXT, "maxLength": MAX_TEXT + 1}))
    assert (field.min_length, field.max_length) == (MAX_TEXT, MAX_TEXT)
    with pytest.raises(Invalid, match="wants more than an answer can have"):
        form_fields(form({"type": "string", "minLength": MAX_TEXT + 1}))


def test_a_form_has_as_many_fields_as_are_allowed_and_no_more() -> None:
    fields = {f"f{number}": {"type": "boolean"} for number in range(MAX_FIELDS)}
    assert len(form_fields({"properties": fields})) == MAX_FIELDS
    with pytest.raises(Invalid, match=f"at most {MAX_FIELDS} properties"):
        form_fields({"properties": {**fields, "more": {"type": "boolean"}}})


def test_a_schema_may_be_as_large_as_is_allowed_and_no_larger() -> None:
    room = MAX_FORM - len(jsonx.encode(form({"type": "string", "description": ""})))
    (field,) = form_fields(form({"type": "string", "description": "x" * room}))
    assert len(field.description) == room
    with pytest.raises(Invalid, match=f"larger than {MAX_FORM} bytes"):
        form_fields(form({"type": "string", "description": "x" * (room + 1)}))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"type": "integer", "minimum": 10**400}, "a number is out of range"),
        ({"type": "string", "default": json.loads("[" * 99 + "]" * 99)}, f"nested deeper than {jsonx.MAX_DEPTH}"),
    ],
)
def test_a_schema_that_cannot_be_read_is_no_form(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=f"Its schema cannot be read: {why}"):
        form_fields(form(rule))


def test_a_message_may_be_as_long_as_is_allowed_and_no_longer() -> None:
    assert unfit({"message": "x" * MAX_TEXT}) == ""
    assert unfit({"message": "x" * (MAX_TEXT + 1)}) == f"the message is longer than {MAX_TEXT} characters"


@pytest.mark.parametrize(
    ("rule", "fits", "does_not", "why"),
    [
        ({"type": "boolean"}, [True, False], ["true", 1], "must be true or false"),
        ({"type": "number"}, [1, 0.5], [True, "1", float("inf"), float("nan")], "must be a number"),
        ({"type": "integer"}, [1, 1.0], [1.5], "must be a whole number"),
        ({"type": "string"}, ["", "x"], [1, ["x"]], "must be text"),
        ({"enum": ["a", "b"]}, ["a"], ["c", ""], "must be one of the choices"),
        ({"type": "array", "items": {"enum": ["a"]}}, [[], ["a"]], ["a", ["b"], [1]], "must be chosen from the list"),
        ({"format": "email"}, ["a@b.example"], ["a@b", "a b@c.example", "@b.example"], "must be an email address"),
        ({"format": "uri"}, ["https://a.example", "urn:x"], ["x", "a://b c", "https://["], "must be a URL"),
        ({"format": "date"}, ["2026-02-28"], ["2026-02-29", "20260228", ""], "must be a date"),
        (
            {"format": "date-time"},
            ["2026-02-28T12:00:00+00:00", "2026-02-28 12:00"],
            ["2026-02-28", "12:00", "2026-02-28T25:00"],
            "must be a date and time",
        ),
    ],
)
def test_an_answer_is_of_its_fields_kind(rule: dict[str, Any], fits: list[Any], does_not: list[Any], why: str) -> None:
    assert [problem(rule, value) for value in fits] == [""] * len(fits)
    assert [problem(rule, value) for value in does_not] == [f"it {why}."] * len(does_not)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (form({"type": "object"}), "Field 'it' has type 'object', which a form cannot ask for."),
        (form({"type": "array", "items": {"type": "string"}}), "Field 'it' is a list without choices."),
        ({"properties": {"it": True}}, "Field 'it' has no schema."),
        ({"properties": []}, f"A form is a flat object with at most {MAX_FIELDS} properties."),
        ([], f"A form is a flat object with at most {MAX_FIELDS} properties."),
    ],
)
def test_a_form_that_cannot_be_drawn_says_why(schema: Any, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        form_fields(schema)
    assert refused.value.message == why
