"""Rules that are in doubt for tools without the argument that they speak of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.core.records import ToolRecord
from taskhub.core.rules import EVERY_ARGUMENT, Preview, Rule, Then
from taskhub.domain.rules.lacking import MAX_TOOLS, Lack, lacks, misfits
from tests.domain.rules.test_decisions import DEPLOY, EXPRESSIONS, STATUS, decide, rules
from tests.support.cost import cpu_seconds

OTHER = replace(STATUS, id=3, name="list")


def told(when: str, *tools: ToolRecord, then: Then = Then.ASK) -> Lack | None:
    found = lacks([Rule(name="r", when=when, then=then)], tools or (DEPLOY, STATUS, OTHER))
    return found[0] if found else None


def having(*names: str, named: str = "tool") -> ToolRecord:
    schema = {"type": "object", "properties": {name: {} for name in names}}
    return replace(DEPLOY, id=9, name=named, definition={"inputSchema": schema})


@pytest.mark.parametrize(
    ("when", "then", "words"),
    [
        (
            "args.environment == 'production'",
            Then.ASK,
            "2 of the 3 tools have no argument environment: every call of them is in doubt, and so asked about. "
            'Name the tool: tool.name == "deploy" && (…).',
        ),
        ("!like(args.environment, 'x')", Then.DENY, "every call of them is in doubt, and so denied."),
        ("client.name == 'ci-bot' && args.amount > 5", Then.ASK, "2 of the 3 tools have no argument amount"),
        ("args.amount > 5 && time.getHours() < 6", Then.ASK, "2 of the 3 tools have no argument amount"),
        ("args.amount > 5 || args.version == '1'", Then.ASK, "no argument amount or version"),
        ("args.environmnet == 'production'", Then.ASK, "All 3 tools have no argument environmnet: every call"),
        ("args.environmnet == 'production'", Then.ASK, "No tool has it: look at how it is spelled."),
        ("tool.readOnly && args['dry run']", Then.ASK, "2 of the 3 tools have no argument dry run"),
    ],
)
def test_it_says_how_many_tools_lack_what_and_what_to_write(when: str, then: Then, words: str) -> None:
    found = told(when, then=then)
    assert found is not None
    assert words in found.words


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ("", Then.ASK),
        ("tool.destructive", Then.DENY),
        ("tool.name == 'deploy' && args.environment == 'production'", Then.ASK),
        ("args.environment == 'production' && tool.name.startsWith('dep')", Then.ASK),
        ("!tool.readOnly && args.amount > 1", Then.DENY),
        ("has(args.environment) && args.environment == 'production'", Then.ASK),
        ("has(args.force)", Then.ASK),
        ("tool.readOnly || args.environment == 'production'", Then.ASK),
        ("size(args) == 1", Then.ASK),
        ("args.environment == 'production'", Then.ALLOW),
    ],
)
def test_nothing_is_said_of_a_rule_that_is_decided_without_the_argument(when: str, then: Then) -> None:
    assert told(when, then=then) is None


def test_a_few_tools_are_named_and_of_many_only_how_to_ask_for_the_argument() -> None:
    few = [having("a", named=f"t{n}") for n in range(2)]
    found = told("args.a == 1 && args.b == 2", *few, having("a", "b", named="both"), having("a", "b", named="too"))
    assert found is not None
    assert found.fix == 'Name the tools: tool.name in ["both", "too"] && (…)'
    found = told("args['a b'] == 1", *(having("a b", named=f"t{n}") for n in range(6)), having())
    assert found is not None
    assert found.fix == 'Name the tools, or take only calls that have it: has(args["a b"]) && (…)'
    found = told("server.name == 'docs' && args.a == 1", having("a"), replace(having(), server_name="docs"))
    assert found is not None
    assert found.fix == "No tool has it: look at how it is spelled", "of those that the rule may match"
    assert (told("args.a == 1", having()) or found).words.startswith("The only tool has no argument a")


@pytest.mark.parametrize("name", ["\0", "\ud800", 'a"b'])
def test_a_strange_name_is_no_error(name: str) -> None:
    found = told("args.a == 1 && args.b == 1", having("a", "b", named=name), having("b"))
    assert found is not None
    assert "no argument a: " in found.words


def test_every_rule_of_a_list_is_looked_at() -> None:
    listed = [
        Rule(name="a", when="args.amount > 1", then=Then.ASK, shadow=True),
        Rule(name="b", when="tool.readOnly", then=Then.ALLOW),
        Rule(name="c", when="args.version == '1'", then=Then.DENY, enabled=False),
    ]
    assert [lack.rule.name for lack in lacks(listed, [DEPLOY, STATUS])] == ["a", "c"]
    assert lacks([], [DEPLOY]) == lacks(listed, []) == []


@given(EXPRESSIONS, st.booleans())
def test_where_a_call_is_in_doubt_because_its_tool_has_no_arguments_there_is_a_warning(when: str, bare: bool) -> None:
    tool = replace(DEPLOY, definition={}) if bare else STATUS
    if decide(rules(("ask", when)), {}, tool).doubt:
        assert told(when, tool) is not None


def test_thousands_of_tools_cost_a_moment() -> None:
    tools = [replace(STATUS, id=n, name=f"tool-{n}", server_name="ops") for n in range(MAX_TOOLS + 10)]
    found = told("args.environment == 'production'", *tools)
    assert cpu_seconds(lambda: told("args.environment == 'production'", *tools)) < 1
    assert found is not None
    assert found.lacking == found.looked_at == MAX_TOOLS


@pytest.mark.parametrize(
    ("sentence", "when", "lost"),
    [
        ("Deploy {args.environment}", "", []),
        ("Deploy {args.environment} {args.enviroment} {args.enviroment}", "", ["enviroment"]),
        ("Look at {args.environment}", "tool.readOnly", ["environment"]),
        ("Look at {args.environment}", "tool.readOnly || client.name == 'ci-bot'", []),
        ("Nothing is called {args.environment}", "tool.name == 'other'", []),
        ("To {args.target.region} {args.target.regoin} {args.free.any} {args.list.0}", "", ["target.regoin"]),
    ],
)
def test_a_place_for_what_no_tool_has_is_told(sentence: str, when: str, lost: list[str]) -> None:
    target = {"type": "object", "properties": {"region": {}}}
    schema = {"properties": {"target": target, "free": {"type": "object"}, "list": {"type": "array"}, "version": {}}}
    tools = [DEPLOY, STATUS, replace(DEPLOY, id=9, name="move", definition={"inputSchema": schema})]
    asks = Rule(name="r", when=when, then=Then.ASK, sentence=sentence)
    found = misfits([asks, Rule(name="d", when="", then=Then.DENY)], tools)
    assert [one.name for one in found] == lost
    assert all(f"place for {{args.{name}}}, but no tool" in one.words for one, name in zip(found, lost, strict=True))


def test_a_preview_and_arguments_to_edit_that_no_tool_has_are_told() -> None:
    reads = {"annotations": {"readOnlyHint": True}}
    tools = [
        DEPLOY,
        replace(STATUS, id=8, server_id=DEPLOY.server_id, name="plan_deploy", definition=reads),
        replace(STATUS, id=9, server_id=DEPLOY.server_id + 1, name="elsewhere", definition=reads),
        replace(STATUS, id=10, server_id=DEPLOY.server_id, name="writes", definition={}),
    ]

    def told(**asks: Any) -> list[str]:
        rule = Rule(name="r", when="tool.name == 'deploy'", then=Then.ASK, **asks)
        return [one.words for one in misfits([rule], tools)]

    for preview in ("elsewhere", "writes", "plan_deplyo"):
        (words,) = told(preview=Preview(tool=preview))
        assert f"a neighbour {preview} on its server that says that it only reads" in words
    assert told(preview=Preview(tool="plan_deploy")) == []
    (words,) = told(preview=Preview(arguments='{"dry_rnu":true,"environment":"x"}'))
    assert words.startswith("No tool that this rule can match has the argument dry_rnu of the preview")
    assert told(editable=(EVERY_ARGUMENT,)) == []
    (words,) = told(editable=("environment", "environmnt"))
    assert words == "No tool that this rule can match has an argument environmnt: nobody could edit it."
