"""Conditions that are written for people who pick them in a form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.core.errors import Invalid
from taskhub.core.rules import Client
from taskhub.domain.rules import comparisons
from taskhub.domain.rules.expressions import Values, absent_values, argument_values, compiled
from taskhub.domain.rules.written import (
    MAX_WHOLE,
    Comparison,
    joined,
    literal,
    of_argument,
    of_client,
    of_no_others,
    of_tool,
    typed,
    typed_list,
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
odd = st.sampled_from(["in", "true", "args", "has", "a b", 'a"b', "a'b", "a\\b", "a\nb", "ä", "__args"])
names = odd | texts.filter(bool)
numbers = st.integers(-MAX_WHOLE + 1, MAX_WHOLE - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts


def met(text: str, arguments: dict[str, Any], *names: str) -> bool | None:
    found = compiled(text)
    values = argument_values(arguments, frozenset())
    return found.met(Values(values | absent_values((set(found.arguments or ()) | set(names)) - arguments.keys())))


@given(names, scalars, scalars)
def test_a_comparison_means_what_the_form_says(name: str, found: Any, wanted: Any) -> None:
    arguments = {name: found}
    same = comparisons.same(found, wanted)
    if wanted is not None:
        assert met(of_argument(name, Comparison.IS, wanted), arguments) is same
        assert met(of_argument(name, Comparison.IS_NOT, wanted), arguments) is (None if same is None else not same)
    assert met(of_argument(name, Comparison.LIKE, wanted), arguments) is comparisons.like(found, wanted)
    assert met(of_argument(name, Comparison.IS, wanted), {name: wanted}) is True, "what is named is always met"


@given(names, numbers, numbers)
def test_numbers_are_compared_by_size(name: str, found: float, wanted: float) -> None:
    for comparison, less in ((Comparison.LESS, found < wanted), (Comparison.GREATER, found > wanted)):
        assert met(of_argument(name, comparison, wanted), {name: found}) is less
    assert met(of_argument(name, Comparison.GREATER, wanted), {name: "12"}) is None, "of another type is in doubt"


@given(names, texts.filter(bool), texts)
def test_a_text_starts_with_another(name: str, start: str, rest: str) -> None:
    text = of_argument(name, Comparison.STARTS, start)
    assert met(text, {name: start + rest}) is True
    assert met(text, {name: rest}) is rest.startswith(start)
    assert met(text, {name: 5}) is None


@given(names, scalars)
def test_an_argument_is_present_whatever_it_is(name: str, value: Any) -> None:
    text = of_argument(name, Comparison.PRESENT)
    assert met(text, {name: value}) is True
    assert met(text, {}, name) is False


@given(names, scalars)
def test_an_argument_is_absent_where_it_is_not_present(name: str, value: Any) -> None:
    text = of_argument(name, Comparison.ABSENT)
    assert met(text, {name: value}) is False
    assert met(text, {}, name) is True


@given(names, st.lists(scalars.filter(lambda one: one is not None), min_size=1, max_size=4), scalars)
def test_an_argument_is_one_of_the_values_that_are_named(name: str, wanted: list[Any], found: Any) -> None:
    text = of_argument(name, Comparison.ONE_OF, wanted)
    same = [comparisons.same(found, one) for one in wanted]
    assert met(text, {name: wanted[0]}) is True
    assert (met(text, {name: found}) is True) is (True in same)
    assert (met(text, {name: found}) is False) is all(one is False for one in same)


@given(names, numbers, numbers, numbers)
def test_a_number_lies_between_two(name: str, low: float, high: float, found: float) -> None:
    text = of_argument(name, Comparison.BETWEEN, (low, high))
    assert met(text, {name: found}) is (low <= found <= high)


@given(texts, texts, texts, texts)
def test_a_client_is_named_so_that_no_other_is(issuer: str, subject: str, client_id: str, other: str) -> None:
    when = compiled(of_client(Client(1, "bot", issuer, subject, client_id)))
    values = {"id": client_id, "name": other, "issuer": issuer, "subject": subject}
    assert when.met(Values({"client": values})) is True
    for part in ("id", "issuer", "subject"):
        assert when.met(Values({"client": {**values, part: values[part] + "x"}})) is False
    assert when.lasting


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("a, b ,c", "string", ["a", "b", "c"]),
        ("1, 2", "string", ["1", "2"]),
        ("1, 2.5", "number", [1, 2.5]),
        ('["a, b", 1]', "string", ["a, b", 1]),
        ("[a, b", "string", ["[a", "b"]),
        ("", "string", []),
        (",", "", []),
    ],
)
def test_values_are_typed_with_commas_or_as_a_json_array(text: str, kind: str, found: list[Any]) -> None:
    assert typed_list(text, kind) == found


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\x1b", "\t", "\u2028", "\ufeff", "\U000e0041", "\xad"])
def test_a_sign_that_nobody_sees_is_written_as_an_escape(sign: str) -> None:
    """Else what turns text around in a value turned the rest of the expression around in its input."""
    name, value = f"to{sign}", f'web{sign}" || true'
    for text in (of_argument(name, Comparison.IS, value), of_argument("to", Comparison.ONE_OF, [value, 1])):
        assert text.isprintable()
        assert sign not in text
    assert met(of_argument(name, Comparison.IS, value), {name: value}) is True
    assert met(of_argument(name, Comparison.IS, value), {name: 'web" || true'}) is False


@given(st.lists(names, max_size=4), names)
def test_a_call_has_no_argument_but_those_that_are_named(allowed: list[str], other: str) -> None:
    text = of_no_others(allowed)
    assert met(text, dict.fromkeys(allowed, 1)) is True
    assert met(text, {}) is True
    assert met(text, {**dict.fromkeys(allowed, 1), other: 1}) is (other in allowed)


@given(texts, texts)
def test_a_tool_is_named_with_its_server(server: str, tool: str) -> None:
    named, other, every = (compiled(of_tool(*one)) for one in ((server, tool), (server, tool + "x"), (server,)))
    # After compiling: comparisons are in doubt 50 ms later.
    values = Values({"server": {"name": server}, "tool": {"name": tool}})
    assert (named.met(values), other.met(values), every.met(values)) == (True, False, True)
    assert named.lasting


@given(st.sampled_from(["", "true", "false || true", "true || false // why", "true ? false : true", "  true // a\n"]))
def test_both_must_be_met(when: str) -> None:
    before = met(when, {})
    assert met(joined(when, "true"), {}) is before
    assert met(joined(when, "false"), {}) is False
    assert met(joined(joined(when, "args.a == 1"), "args.b == 2"), {"a": 1, "b": 2}) is before


def test_nothing_is_added_to_what_means_nothing() -> None:
    with pytest.raises(Invalid, match="closes nothing"):
        joined("true)", "true")
    with pytest.raises(Invalid, match="at most"):
        joined("true && " * 150 + "true", of_tool("a", "b") + " && true" * 150)


@pytest.mark.parametrize(
    ("name", "comparison", "value", "field"),
    [
        ("", Comparison.PRESENT, None, "argument"),
        ("a", Comparison.GREATER, "12", "value"),
        ("a", Comparison.LESS, True, "value"),
        ("a", Comparison.ONE_OF, [], "value"),
        ("a", Comparison.ONE_OF, [["b"]], "value"),
        ("a", Comparison.BETWEEN, [1], "value"),
        ("a", Comparison.BETWEEN, [1, "2"], "value"),
        ("a", Comparison.BETWEEN, None, "value"),
        ("a", Comparison.STARTS, 5, "value"),
        ("a", Comparison.STARTS, "", "value"),
        ("a", Comparison.IS, MAX_WHOLE, "value"),
        ("a", Comparison.IS, float("inf"), "value"),
        ("a", Comparison.IS, [1], "value"),
        ("a", Comparison.IS, "\0", "value"),
    ],
)
def test_what_cannot_be_written_is_refused_beside_its_field(
    name: str, comparison: Comparison, value: Any, field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        of_argument(name, comparison, value)
    assert caught.value.data["field"] == field


def test_a_value_is_typed_as_the_argument_has_it() -> None:
    assert typed("5", "string") == "5"
    assert typed("5", "integer") == 5
    assert typed("true", "") is True
    assert typed("production", "") == "production"
    assert literal('it\'s "quoted"\n') == '"it\'s \\"quoted\\"\\u000a"'
