"""What is refused because it can be neither true nor false, and that nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskhub.core.errors import Invalid
from taskhub.core.rules import Rule, Then
from taskhub.domain.rules import kinds
from taskhub.domain.rules.decisions import check_expressions
from taskhub.domain.rules.expressions import (
    FUNCTIONS,
    MEMBERS,
    METHODS,
    PARTS_OF_TIME,
    Values,
    absent_values,
    argument_values,
    compiled,
)
from taskhub.domain.rules.kinds import check_kinds
from tests.domain.rules.test_expressions import CLIENT, MEANT, TOOL
from tests.support.cost import cpu_seconds

REFUSED = [
    ('tool.name == "a" || "b"', 21, '"b" is a text, but || joins what is true or false.', 'tool.name in ["a", "b"]'),
    ("tool.name == 'a' || 'b' || 'c'", 21, "'b' is a text", "tool.name in ['a', 'b']"),
    ("tool.name == 'a' || tool.readOnly || 'c'", 38, "'c' is a text", "tool.name in ['a', tool.readOnly, 'c']"),
    ('tool.name != "a" && "b"', 21, '"b" is a text, but && joins', '!(tool.name in ["a", "b"])'),
    ('tool.readOnly && "b"', 18, '"b" is a text, but && joins', 'tool.name == "b"'),
    ("tool.name", 1, "tool.name is a text, but a rule matches where its expression is true", 'tool.name == "…"'),
    ("(tool.name)", 1, "(tool.name) is a text", ""),
    ('"x"', 1, '"x" is a text', 'tool.name == "x"'),
    ("1", 1, "1 is a number", ""),
    ("null", 1, "null is null", ""),
    ("time", 1, "time is a time", "time.getHours() < 6"),
    ("time.getHours()", 1, "time.getHours() is a number", "time.getHours() > 0"),
    ("client.scopes", 1, "client.scopes is a list", '"…" in client.scopes'),
    ('["a"]', 1, '["a"] is a list', 'tool.name in ["a"]'),
    ("{'a': 1}", 1, "{'a': 1} is a map", ""),
    ("args", 1, "args is a map", ""),
    ("size(args.paths)", 1, "size(args.paths) is a number", "size(args.paths) > 0"),
    ("args.a + args.b", 1, "args.a + args.b is neither true nor false", ""),
    ("args.a * 2", 1, "args.a * 2 is a number", "args.a * 2 > 0"),
    ("tool.name ? true : false", 1, "tool.name is a text, but ? chooses by true or false", ""),
    ("tool.readOnly ? 1 : 'a'", 1, "tool.readOnly ? 1 : 'a' is neither true nor false", ""),
    ("!client.name", 2, "client.name is a text, but ! stands before what is true or false", ""),
    ('!tool.name == "x"', 1, "! stands before tool.name alone, which is a text", '!(tool.name == "x")'),
    ("!args.a == 1", 1, "!args.a is true or false, and 1 is a number", "!(args.a == 1)"),
    ("!args.a || !5", 13, "5 is a number", ""),
    ("args.paths.exists(p, 'a')", 22, "'a' is a text, but exists asks what is true or false", ""),
    ("args.paths.filter(p, size(p)).size() > 1", 22, "size(p) is a number, but filter asks", ""),
    ("like(args.a, tool.name && true)", 14, "tool.name is a text", ""),
    ("{'a': tool.name || true} == args.a", 7, "tool.name is a text", ""),
    ('tool.readOnly == "true"', 1, 'tool.readOnly is true or false, and "true" is a text', "tool.readOnly == true"),
    ("tool.name == 5", 1, "a comparison of them is always in doubt", 'tool.name == "5"'),
    ("tool.name < 5", 1, "a comparison of them is always in doubt", ""),
    ("tool.name == ['a']", 1, "tool.name is a text, and ['a'] is a list", "tool.name in ['a']"),
    ("client.scopes == 'a'", 1, "client.scopes is a list, and 'a' is a text", "'a' in client.scopes"),
    ('tool.name in "abc"', 14, '"abc" is a text, but in looks into a list or map', 'tool.name in ["abc"]'),
    ("tool.name == 'a' || " + "args.a + " * 12 + "1", 21, "… is neither true nor false", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "at", "told", "fix"), REFUSED, ids=[text for text, *_ in REFUSED])
def test_what_is_neither_true_nor_false_is_refused_with_its_place_and_a_fix(
    text: str, at: int, told: str, fix: str
) -> None:
    compiled(text)
    with pytest.raises(Invalid) as refused:
        check_expressions([Rule(name="a", when="", then=Then.ASK), Rule(name="b", when=text, then=Then.DENY)])
    assert refused.value.data["field"] == "rules.1.when"
    assert refused.value.message.startswith(f"At character {at}: ")
    assert told.rstrip(".") in refused.value.message
    assert f"Perhaps: {fix}." in refused.value.message if fix else True
    if fix and "…" not in fix and "tool.readOnly, 'c'" not in fix:
        check_kinds(fix)


@pytest.mark.parametrize("text", [text for text, expected in MEANT if expected is not None])
def test_what_is_true_or_false_for_a_call_is_taken(text: str) -> None:
    check_kinds(text)


def test_every_variable_and_function_has_a_kind() -> None:
    assert {variable: frozenset(parts) for variable, parts in kinds.MEMBERS.items()} == MEMBERS
    assert kinds.FUNCTIONS.keys() == FUNCTIONS
    assert kinds.METHODS.keys() | PARTS_OF_TIME == METHODS


@dataclass(frozen=True)
class Written:
    """An expression, and those parts of it that have to be able to be decided: operands, conditions, comparisons."""

    text: str
    parts: frozenset[str] = frozenset()


ATOMS = [
    *("true", "false", "null", "1", "2.5", '"a"', "'production'", "[]", '["a", 1]', "{'a': 1}", "time"),
    *(f"{variable}.{name}" for variable, names in MEMBERS.items() for name in names if name != "annotations"),
    *("args.text", "args.number", "args.flag", "args.list", "args.map", "args.nothing", "args.absent", "args"),
    *(
        "size(args.list)",
        "has(args.text)",
        "tool.annotations.readOnlyHint",
        "like(args.text, 'A')",
        "string(args.text)",
    ),
    *("int(args.text)", "double(1)", "timestamp('2026-01-01T00:00:00Z')", "duration('1h')", "time.getHours()"),
    *("tool.name.startsWith('a')", "args.list.filter(i, i == 'a')", "args.list[0]", "args.map.a", "args.text.size()"),
]
RELATIONS = st.sampled_from(["==", "!=", "in", "<", "<=", ">", ">="])
SUMS = st.sampled_from(["+", "-", "*", "/", "%"])
PLAIN = st.sampled_from(ATOMS).map(Written)


def bracketed(one: Written) -> Written:
    return Written(f"({one.text})", one.parts)


def related(one: Written, sign: str, other: Written) -> Written:
    text = f"({one.text}) {sign} ({other.text})"
    return Written(text, one.parts | other.parts | {text})


def joined(one: Written, sign: str, other: Written) -> Written:
    return Written(f"({one.text}) {sign} ({other.text})", one.parts | other.parts | {one.text, other.text})


def chosen(what: Written, one: Written, other: Written) -> Written:
    text = f"({what.text}) ? ({one.text}) : ({other.text})"
    return Written(text, what.parts | one.parts | other.parts | {what.text})


WRITTEN = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.builds(related, inner, RELATIONS, inner),
        st.builds(joined, inner, st.sampled_from(["&&", "||"]), inner),
        st.builds(
            lambda one, sign, other: Written(f"({one.text}) {sign} ({other.text})", one.parts | other.parts),
            inner, SUMS, inner,
        ),
        st.builds(chosen, inner, inner, inner),
        inner.map(lambda one: Written(f"!({one.text})", one.parts | {one.text})),
        inner.map(lambda one: Written(f"-({one.text})", one.parts)),
        inner.map(bracketed),
    ),
    max_leaves=5,
)  # fmt: skip
CALLS: list[Mapping[str, Any]] = [
    {"text": "a", "number": 1, "flag": True, "list": ["a"], "map": {"a": True}, "nothing": None},
    {"text": "5", "number": 2.5, "flag": False, "list": [True], "map": {"a": 1}, "nothing": None},
    {"text": True, "number": ["a"], "flag": {"a": 1}, "list": {"a": 1}, "map": {"a": "a"}, "nothing": 1},
    {"text": 1, "number": "a", "flag": "a", "list": [[]], "map": [1], "nothing": True},
    {"text": ["a", 1], "number": True, "flag": 1, "list": True, "map": "a", "nothing": []},
]


def decided(text: str) -> bool:
    """Whether the expression is true or false for one of the calls."""
    found = compiled(text)
    names = set(found.arguments or ())
    for call in CALLS:
        variables = {"client": CLIENT, "server": {"name": "ops"}, "tool": TOOL}
        variables["time"] = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
        variables |= argument_values(call, frozenset()) | absent_values(names - call.keys())
        if found.met(Values(variables)) is not None:
            return True
    return False


@settings(max_examples=400)
@given(WRITTEN)
def test_what_is_decided_for_some_call_in_all_its_parts_is_taken(written: Written) -> None:
    """A whole may be decided though a part never is, such as `true || "a"`: that part is what is refused."""
    try:
        check_kinds(written.text)
    except Invalid:
        assert not all(decided(part) for part in {*written.parts, written.text})


@settings(max_examples=200)
@given(st.sampled_from([text for text, *_ in REFUSED]), st.sampled_from(["{}", "({})", "true && ({})", "!!({})"]))
def test_what_is_refused_stays_refused_in_brackets_and_operands(text: str, around: str) -> None:
    with pytest.raises(Invalid):
        check_kinds(around.format(text))


@pytest.mark.parametrize(
    "text",
    [
        "!(" * 16 + "args.a" + " == true)" * 16,
        "(" * 16 + "true" + ")" * 16,
        "(a ? b : " * 16 + "c" + ")" * 16,
        "a ? b : " * 90 + "c",
        "!" * 390 + "true",
        "-" * 390 + "1 == 1",
        "true" + " && true" * 190,
    ],
)
def test_a_hostile_expression_is_looked_at_quickly(text: str) -> None:
    assert cpu_seconds(lambda: check_kinds.__wrapped__(text)) < 0.02
