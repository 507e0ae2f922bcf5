"""Rules: the records of a tenant's list, what it may hold, and what two lists have otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.core.policy import MAX_GROUP, MAX_QUORUM
from taskhub.core.rules import (
    MAX_ARGUMENT_NAME,
    MAX_BYTES,
    MAX_EDITABLE,
    MAX_MINUTES,
    MAX_NAME,
    MAX_PREVIEW,
    MAX_RULES,
    MAX_SENTENCE,
    MAX_TOOL,
    MAX_WHEN,
    MAX_WORDS,
    RULE_FIELDS,
    Difference,
    Otherwise,
    Preview,
    Risk,
    Rule,
    Then,
    check_rules,
    difference,
    digest_of,
    encoded,
    from_json,
    list_from_json,
    to_json,
)

PLAIN = Rule(name="pass", when="", then=Then.ALLOW)
WHOLE: dict[str, Any] = {
    "name": "deploys to production",
    "when": 'like(args.environment, "production")',
    "then": "ask",
    "words": "Ask ops.",
    "group": "ops",
    "quorum": 2,
    "not_requester": True,
    "risk": "high",
    "second_factor": True,
    "sentence": "Deploy {args.service}",
    "expires_minutes": 60,
    "remind_minutes": 20,
    "otherwise": "escalate",
    "escalate_to": "leads",
    "preview": {"arguments": {"dry_run": True, "depth": [1, None]}},
    "editable": ["environment", "note"],
    "enabled": False,
    "shadow": True,
}


def named(*names: str) -> list[Rule]:
    return [replace(PLAIN, name=name) for name in names]


def refused(rules: list[Rule]) -> str:
    """The field that is at fault."""
    with pytest.raises(Invalid) as caught:
        check_rules(rules)
    return str(caught.value.data["field"])


# --- as JSON


def test_a_rule_is_as_json_what_it_was_and_its_fields_are_all_there() -> None:
    assert tuple(WHOLE) == RULE_FIELDS
    rule = from_json(WHOLE)
    preview = Preview(arguments='{"depth":[1,null],"dry_run":true}')
    read = {"then": Then.ASK, "risk": Risk.HIGH, "otherwise": Otherwise.ESCALATE, "preview": preview}
    assert rule == Rule(**{**WHOLE, **read, "editable": ("environment", "note")})
    assert to_json(rule) == WHOLE
    assert from_json(json.loads(json.dumps(to_json(rule)))) == rule


def test_what_is_as_a_new_rule_has_it_is_left_out_and_comes_back() -> None:
    assert to_json(PLAIN) == {"name": "pass", "when": "", "then": "allow"}
    assert from_json(to_json(PLAIN)) == PLAIN


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"whne": ""}, "rules.1.whne"),
        ({1: ""}, "rules.1.1"),
        ({"name": None}, "rules.1.name"),
        ({"when": ["a"]}, "rules.1.when"),
        ({"then": "sometimes"}, "rules.1.then"),
        ({"then": None}, "rules.1.then"),
        ({"risk": "some"}, "rules.1.risk"),
        ({"risk": None}, "rules.1.risk"),
        ({"risk": 1}, "rules.1.risk"),
        ({"otherwise": "shrug"}, "rules.1.otherwise"),
        ({"expires_minutes": 1.5}, "rules.1.expires_minutes"),
        ({"remind_minutes": "20"}, "rules.1.remind_minutes"),
        ({"escalate_to": None}, "rules.1.escalate_to"),
        ({"sentence": ["Deploy"]}, "rules.1.sentence"),
        ({"editable": True}, "rules.1.editable"),
        ({"editable": "environment"}, "rules.1.editable"),
        ({"editable": ["environment", 1]}, "rules.1.editable"),
        ({"not_requester": 1}, "rules.1.not_requester"),
        ({"preview": None}, "rules.1.preview"),
        ({"preview": "plan"}, "rules.1.preview"),
        ({"preview": {}}, "rules.1.preview"),
        ({"preview": {"tool": ""}}, "rules.1.preview"),
        ({"preview": {"tool": 1}}, "rules.1.preview"),
        ({"preview": {"arguments": {}}}, "rules.1.preview"),
        ({"preview": {"arguments": [1]}}, "rules.1.preview"),
        ({"preview": {"tool": "plan", "arguments": {"a": 1}}}, "rules.1.preview"),
        ({"preview": {"arguments": {"a": "\0"}}}, "rules.1.preview"),
        ({"preview": {"arguments": {"a": "\ud800"}}}, "rules.1.preview"),
        ({"preview": {"arguments": {"a": {1}}}}, "rules.1.preview"),
        ({"quorum": True}, "rules.1.quorum"),
        ({"quorum": "2"}, "rules.1.quorum"),
        ({"quorum": 1.0}, "rules.1.quorum"),
        ({"enabled": 1}, "rules.1.enabled"),
        ({"shadow": "yes"}, "rules.1.shadow"),
    ],
)
def test_what_is_no_rule_is_refused_by_its_place_and_field(change: dict[Any, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        list_from_json([WHOLE, {**WHOLE, **change}])
    assert caught.value.data["field"] == field


@pytest.mark.parametrize("name", ["name", "when", "then"])
def test_a_rule_says_what_it_is_called_when_it_holds_and_what_then(name: str) -> None:
    with pytest.raises(Invalid, match=f"needs {name}") as caught:
        from_json({key: value for key, value in WHOLE.items() if key != name})
    assert caught.value.data["field"] == f"rule.{name}"


@pytest.mark.parametrize(("value", "field"), [({}, "rules"), (None, "rules"), ([[]], "rules.0"), (["a"], "rules.0")])
def test_what_is_no_list_of_rules_is_refused(value: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        list_from_json(value)
    assert caught.value.data["field"] == field


# --- what a list may hold


@pytest.mark.parametrize(
    "rules",
    [
        [],
        named("n" * MAX_NAME, "Ünicode ✓ name"),
        [replace(PLAIN, when="x" * MAX_WHEN, then=Then.DENY, words="w" * MAX_WORDS)],
        [replace(PLAIN, then=Then.ASK, group="g" * MAX_GROUP)],
        [replace(PLAIN, when="true &&\n\tfalse", then=Then.DENY, words="One.\nAnother."), replace(PLAIN, name="b")],
        [replace(PLAIN, then=Then.ASK, quorum=MAX_QUORUM, expires_minutes=MAX_MINUTES)],
        [replace(PLAIN, then=Then.ASK, expires_minutes=2, remind_minutes=1)],
        [replace(PLAIN, then=Then.ASK, otherwise=Otherwise.ALLOW, risk=Risk.HIGH)],
        [replace(PLAIN, then=Then.ASK, otherwise=Otherwise.ESCALATE, escalate_to="g" * MAX_GROUP)],
        [replace(PLAIN, then=Then.ASK, editable=("*",))],
        [replace(PLAIN, then=Then.ASK, editable=tuple(f"{n}".ljust(MAX_ARGUMENT_NAME) for n in range(MAX_EDITABLE)))],
        named(*map(str, range(MAX_RULES))),
    ],
)
def test_what_may_be_saved(rules: list[Rule]) -> None:
    check_rules(rules)
    assert list_from_json(json.loads(encoded(rules))) == tuple(rules)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "n" * (MAX_NAME + 1)),
        ("name", " a"),
        ("name", "a\n"),
        ("name", "a\0b"),
        ("name", "a\u200bb"),
        ("when", "x" * (MAX_WHEN + 1)),
        ("when", "a\0b"),
        ("when", "a\ud800"),
        ("then", "sometimes"),
        ("words", "w" * (MAX_WORDS + 1)),
        ("words", "\0"),
        ("risk", "some"),
        ("expires_minutes", 0),
        ("expires_minutes", MAX_MINUTES + 1),
        ("expires_minutes", True),
        ("remind_minutes", 1),  # it does not ask
        ("remind_minutes", -1),
        ("remind_minutes", 1_440),
        ("remind_minutes", True),
        ("otherwise", "shrug"),
        ("escalate_to", "leads"),
        ("sentence", "s" * (MAX_SENTENCE + 1)),
        ("sentence", "a\nb"),
        ("sentence", "a\u202eb"),
        ("group", "g" * (MAX_GROUP + 1)),
        ("group", "a\0b"),
        ("quorum", 0),
        ("quorum", MAX_QUORUM + 1),
        ("quorum", True),
    ],
)
def test_what_may_not_and_which_place_and_field_say_so(field: str, value: Any) -> None:
    assert refused([*named("first", "second"), replace(PLAIN, **{field: value})]) == f"rules.2.{field}"


@pytest.mark.parametrize(
    ("says", "field"),
    [
        ({"otherwise": Otherwise.ESCALATE}, "escalate_to"),
        ({"otherwise": Otherwise.ESCALATE, "escalate_to": "ops", "group": "ops"}, "escalate_to"),
        ({"otherwise": Otherwise.ESCALATE, "escalate_to": "g" * (MAX_GROUP + 1)}, "escalate_to"),
        ({"otherwise": Otherwise.ALLOW, "escalate_to": "ops"}, "escalate_to"),
        ({"otherwise": Otherwise.ALLOW, "risk": Risk.CRITICAL}, "otherwise"),
    ],
)
def test_what_happens_if_nobody_decides_has_to_make_sense(says: dict[str, Any], field: str) -> None:
    assert refused([replace(PLAIN, then=Then.ASK, **says)]) == f"rules.0.{field}"


@pytest.mark.parametrize(
    ("preview", "then"),
    [
        (Preview(), Then.ASK),
        (Preview(tool="plan", arguments='{"a":1}'), Then.ASK),
        (Preview(tool="p" * (MAX_TOOL + 1)), Then.ASK),
        (Preview(tool="a\nb"), Then.ASK),
        (Preview(tool=" plan"), Then.ASK),
        (Preview(arguments=json.dumps({"a": "x" * MAX_PREVIEW})), Then.ASK),
        (Preview(tool="plan"), Then.ALLOW),
        (Preview(tool="plan"), Then.DENY),
        (Preview(tool="plan"), Then.HIDE),
    ],
)
def test_a_preview_is_one_call_of_a_rule_that_asks(preview: Preview, then: Then) -> None:
    assert refused([replace(PLAIN, then=then, preview=preview)]) == "rules.0.preview"
    check_rules([replace(PLAIN, then=Then.ASK, preview=Preview(tool="p" * MAX_TOOL))])


@pytest.mark.parametrize(
    "editable",
    [
        ("",),
        ("a\n",),
        ("a\u200b",),
        ("n" * (MAX_ARGUMENT_NAME + 1),),
        ("a", "a"),
        ("*", "a"),
        tuple(map(str, range(MAX_EDITABLE + 1))),
    ],
)
def test_arguments_that_may_be_edited_are_names_each_once(editable: tuple[str, ...]) -> None:
    assert refused([replace(PLAIN, then=Then.ASK, editable=editable)]) == "rules.0.editable"


@pytest.mark.parametrize("then", Then)
def test_a_rule_says_nothing_that_has_no_meaning_for_what_it_does(then: Then) -> None:
    says: dict[str, Any] = {
        "group": "ops",
        "quorum": 2,
        "not_requester": True,
        "risk": Risk.HIGH,
        "second_factor": True,
        "sentence": "Deploy",
        "expires_minutes": 60,
        "remind_minutes": 1,
        "otherwise": Otherwise.ALLOW,
        "preview": Preview(tool="plan"),
        "editable": ("a",),
    }
    for field, value in says.items():
        rule = replace(PLAIN, then=then, **{field: value})
        if then is Then.ASK:
            check_rules([rule])
        else:
            assert refused([rule]) == f"rules.0.{field}"
    spoken = [replace(PLAIN, then=then, words="No.")]
    if then is Then.DENY:
        check_rules(spoken)
    else:
        assert refused(spoken) == "rules.0.words"


def test_a_name_is_there_once() -> None:
    assert refused(named("a", "b", "a")) == "rules.2.name"


def test_a_list_has_a_greatest_length_and_size() -> None:
    assert refused(named(*map(str, range(MAX_RULES + 1)))) == "rules"
    long = [replace(rule, when="€" * MAX_WHEN) for rule in named(*map(str, range(MAX_RULES)))]
    assert len(encoded(long)) > MAX_BYTES
    assert refused(long) == "rules"


# --- digests and differences


def test_a_list_of_before_fields_were_added_has_the_digest_that_was_stored_with_it() -> None:
    old = {"name": "a", "when": "tool.readOnly", "then": "ask", "group": "ops", "quorum": 2}
    listed = list_from_json([old, {"name": "b", "when": "", "then": "deny", "words": "No."}])
    assert digest_of(listed) == "31386d7a1941f7aff7fcab3d3e518fce3150b7a23175616b228cac60ca487d56"


@pytest.mark.parametrize("name", RULE_FIELDS)
def test_every_field_counts_in_the_digest_and_so_does_the_order(name: str) -> None:
    rules = named("a", "b")
    whole = from_json(WHOLE)
    other = replace(rules[1], **{name: getattr(whole, name)})
    assert len({digest_of(rules), digest_of([rules[0], other]), digest_of(rules[::-1]), digest_of([])}) == 4


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", "|||"),
        ("", "ab", "ab|||"),
        ("ab", "", "|ab||"),
        ("abc", "abc", "|||"),
        ("abcd", "dabc", "|||d"),
        ("abcd", "bcda", "|||a"),
        ("abcd", "acbd", "|||c"),
        ("abc", "xabc", "x|||"),
        ("abc", "bc", "|a||"),
        ("abc", "aBc", "||b|"),
        ("abcd", "Dxac", "x|b|d|d"),
    ],
)
def test_what_two_lists_have_otherwise(before: str, after: str, expected: str) -> None:
    """A letter is a rule; a capital letter is the same rule, but that it says something else."""
    made = [replace(PLAIN, name=one.lower(), shadow=one.isupper()) for one in after]
    added, removed, changed, moved = map(tuple, expected.split("|"))
    found = difference(named(*before), made)
    assert found == Difference(added=added, removed=removed, changed=changed, moved=moved)


def test_hundreds_of_rules_in_reverse_have_all_moved_but_one() -> None:
    rules = named(*map(str, range(MAX_RULES)))
    assert len(difference(rules, rules[::-1]).moved) == MAX_RULES - 1
