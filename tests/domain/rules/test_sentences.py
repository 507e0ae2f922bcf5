"""The sentence of what will happen: what it may hold, and what becomes of it for a call."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.asking import Asking, asking
from taskhub.core.errors import Invalid
from taskhub.core.rules import Otherwise, Risk, Rule, Then, Verdict
from taskhub.core.secrets import HIDDEN
from taskhub.domain.rules.sentences import MAX_PLACES, MAX_SHOWN, NOT_GIVEN, check_sentences, filled_in
from taskhub.domain.tasks.create import approval_question
from tests.factories import make_server, make_tenant, make_tool

SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "default": "eu"}}}


def rule(sentence: str) -> Rule:
    return Rule(name="r", when="", then=Then.ASK, sentence=sentence)


def text(sentence: str, **arguments: Any) -> str:
    return "".join(filled_in(sentence, arguments, SCHEMA))


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "Deploy.",
        "Deploy {args.service} {args.version} to {args.environment}",
        "{args.a}{args.b.c}{args.list.0.name}",
        "{args.dry run} {args.größe} {args.a-b}",
        "{{args.service}} stays, and }} too",
        "{args.x}" * MAX_PLACES,
    ],
)
def test_what_a_sentence_may_hold(sentence: str) -> None:
    check_sentences([rule(sentence)])


@pytest.mark.parametrize(
    "sentence",
    [
        "{",
        "}",
        "{}",
        "{args}",
        "{args.}",
        "{args..a}",
        "{args.a.}",
        "{service}",
        "{client.name}",
        "{args.a!r}.{0}",
        "{args.a[0]}",
        "{args.a['b']}",
        "{{args.a}",
        "{args.{args.a}}",
        "{args.x}" * (MAX_PLACES + 1),
    ],
)
def test_what_is_no_place_for_an_argument_is_refused_by_its_rule(sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_sentences([rule(""), rule(sentence)])
    assert caught.value.data["field"] == "rules.1.sentence"


@pytest.mark.parametrize(
    ("sentence", "arguments", "told"),
    [
        ("Deploy {args.service}!", {"service": "web"}, "Deploy web!"),
        ("{args.a}{args.a}", {"a": 1}, "11"),
        ("{args.a} {args.b} {args.c} {args.d}", {"a": None, "b": True, "c": 1.5, "d": ""}, 'null true 1.5 ""'),
        ("{args.a}", {"a": {"b": [1, "x"]}}, '{"b":[1,"x"]}'),
        ("{args.a.b.1}", {"a": {"b": [1, "x"]}}, "x"),
        ("{args.a.b.2} {args.a.c} {args.a.b.0.z}", {"a": {"b": [1]}}, " ".join([NOT_GIVEN] * 3)),
        ("{args.a.b.01} {args.a.b.-1}", {"a": {"b": [1, 2]}}, f"{NOT_GIVEN} {NOT_GIVEN}"),
        ("{args.region} {args.zone}", {}, f"eu {NOT_GIVEN}"),
        ("{args.region}", {"region": "us"}, "us"),
        ("{{args.a}} }}{{", {"a": 1}, "{args.a} }{"),
        ("{args.a}", {"a": "{args.b} {{"}, "{args.b} {{"),
        (
            "{args.token} {args.url}",
            {"token": "t0p", "url": "https://a.b/?key=1"},
            f"{HIDDEN} https://a.b/?key={HIDDEN}",
        ),
    ],
)
def test_what_becomes_of_it(sentence: str, arguments: dict[str, Any], told: str) -> None:
    check_sentences([rule(sentence)])
    assert text(sentence, **arguments) == told


@pytest.mark.parametrize("value", ["x" * 100_000, ["x" * 300] * 1_000, {"k" * 500: 1}])
def test_a_long_value_is_cut(value: Any) -> None:
    _, shown, after = filled_in("{args.a}", {"a": value}, None)
    assert (len(shown), shown[-1], after) == (MAX_SHOWN, "…", "")


def test_words_of_the_rule_and_values_of_the_call_are_told_apart() -> None:
    """So that no value can pass for the rule's words."""
    assert filled_in("Deploy {args.a} to {args.b}", {"a": "web to staging. Not", "b": "prod"}, {}) == [
        "Deploy ", "web to staging. Not", " to ", "prod", "",
    ]  # fmt: skip
    assert filled_in("{args.a}{args.b}", {"a": "", "b": 1}, {}) == ["", '""', "", "1", ""]


@pytest.mark.django_db
def test_an_approval_keeps_what_the_rule_said_of_this_call() -> None:
    tool = make_tool(make_server(make_tenant()))
    critical = Rule(name="r", when="", then=Then.ASK, risk=Risk.CRITICAL, sentence="Deploy {args.a}.")
    question = approval_question(tool, {"a": "web"}, Verdict(Then.ASK, critical, 3))
    assert question is not None
    assert question.params["decided"] == {
        "rule": "r",
        "version": 3,
        "doubt": False,
        "risk": "critical",
        "sentence": ["Deploy ", "web", "."],
        "expires_minutes": 1_440,
        "otherwise": "deny",
    }
    kept = asking(question.params)
    assert kept.sentence == (("Deploy ", False), ("web", True), (".", False))
    assert kept.critical
    plain = approval_question(tool, {}, Verdict(Then.ASK, Rule(name="r", when="", then=Then.ASK), 3))
    assert plain is not None
    assert asking(plain.params) == Asking(otherwise=Otherwise.DENY)
    assert asking({"rule": {}}) == asking({"decided": {"rule": "r", "version": 3, "doubt": False}}) == Asking()
