"""The verdict of a list of rules on a call: first match, doubt, shadow, what is hidden, and what it costs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.core.errors import Invalid
from taskhub.core.records import ToolRecord
from taskhub.core.rules import Client, Rule, RuleList, Then, Verdict
from taskhub.core.states import TaskMode
from taskhub.domain.rules.decisions import MAX_ARGUMENT, MAX_ITEMS, CompiledRule, Rules, Steps, check_expressions
from taskhub.domain.rules.expressions import Expression, Values
from tests.support.cost import cpu_seconds

CI = Client(7, "ci-bot", "taskhub", "ci", "ci", frozenset({"tasks:call"}))
NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "properties": {
        "environment": {"type": "string", "default": "production"},
        "version": {"type": "string"},
        "amount": {"type": "integer"},
        "to": {"type": ["string", "array"], "items": {"type": "string"}},
    },
    "required": ["version"],
}
DEPLOY = ToolRecord(
    id=1,
    server_id=1,
    server_name="ops",
    name="deploy",
    exposed_name="deploy",
    definition={"inputSchema": SCHEMA, "annotations": {"destructiveHint": True}},
    digest="d1",
    mode=TaskMode.AUTO,
    hint_mode=None,
    at_least_once=False,
)
STATUS = replace(DEPLOY, id=2, name="status", definition={"annotations": {"readOnlyHint": True}}, digest="d2")


def rules(*given: tuple[str, str]) -> Rules:
    listed = tuple(Rule(name=f"r{n}", when=when, then=Then(then)) for n, (then, when) in enumerate(given))
    return Rules(RuleList(3, listed))


def decide(listed: Rules, arguments: dict[str, Any], tool: ToolRecord = DEPLOY) -> Verdict:
    return listed.decide(CI, tool, arguments, program="agent", now=NOON)


def test_no_rule_leaves_the_call_to_the_policy_of_the_tool() -> None:
    assert decide(rules(), {}) == Verdict(Then.ALLOW, version=3)
    assert decide(rules(("deny", "tool.name == 'other'")), {}).rule is None


def test_the_first_rule_that_matches_decides() -> None:
    listed = rules(
        ("allow", "tool.readOnly"), ("ask", "args.environment == 'production'"), ("deny", "client.name == 'ci-bot'")
    )
    asked = decide(listed, {"version": "1", "environment": "production"})
    assert (asked.then, asked.rule and asked.rule.name, asked.version, asked.doubt) == (Then.ASK, "r1", 3, False)
    assert decide(listed, {"version": "1", "environment": "staging"}).then is Then.DENY
    assert decide(listed, {}, STATUS).then is Then.ALLOW


@pytest.mark.parametrize("then", ["ask", "deny"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"version": "1"},  # the default of the schema
        {"environment": None},
        {"environment": ["production"]},
        {"environment": 1},
        {"environment": "x" * (MAX_ARGUMENT + 1)},
    ],
)
def test_a_rule_that_is_in_doubt_asks_and_denies(then: str, arguments: dict[str, Any]) -> None:
    assert decide(rules((then, "args.environment == 'production'")), arguments).then == then


def test_a_rule_that_is_in_doubt_does_not_allow() -> None:
    listed = rules(("allow", "args.amount < 100"), ("ask", ""))
    assert decide(listed, {"amount": 5}).then is Then.ALLOW
    for amount in (100, "5", None, 5.5, [5]):
        assert decide(listed, {"amount": amount}).then is Then.ASK, amount
    assert decide(listed, {}).then is Then.ASK


def test_a_doubt_is_told() -> None:
    assert decide(rules(("ask", "args.amount > 1")), {"amount": "7"}).doubt
    assert not decide(rules(("ask", "args.amount > 1")), {"amount": 7}).doubt


def test_json_in_a_text_is_in_doubt_where_a_tool_takes_more_than_text() -> None:
    listed = rules(("ask", "args.to == 'all'"))
    assert decide(listed, {"to": '["all"]'}).then is Then.ASK
    assert decide(listed, {"to": " null"}).then is Then.ASK
    assert decide(listed, {"to": "one"}).then is Then.ALLOW
    assert decide(rules(("ask", "args.version == 'all'")), {"version": '["all"]'}).then is Then.ALLOW


def test_what_is_too_large_to_look_at_is_in_doubt() -> None:
    listed = rules(("ask", "args.to.exists(one, one == 'all')"))
    assert decide(listed, {"to": ["x"] * MAX_ITEMS}).then is Then.ALLOW
    assert decide(listed, {"to": ["x"] * (MAX_ITEMS + 1)}).then is Then.ASK
    deep: Any = "x"
    for _ in range(MAX_ITEMS + 1):
        deep = [deep]
    assert decide(rules(("ask", "args.other == 'x'")), {"other": deep}).then is Then.ASK


@pytest.mark.parametrize("value", ["\ud800", 10**400, -(10**400), ["\ud800"], {"\ud800": 1}, {"a": [10**30, 10**400]}])
@pytest.mark.parametrize("more", [{}, {"\ud800": 1}])
def test_what_cel_cannot_hold_is_in_doubt(value: Any, more: dict[str, Any]) -> None:
    found = decide(rules(("ask", "args.x == 'a'")), {"x": value, **more})
    assert (found.then, found.doubt) == (Then.ASK, True)
    assert decide(rules(("allow", "args.x != 'a'"), ("deny", "")), {"x": value, **more}).then is Then.DENY
    assert decide(rules(("ask", "size(args) < 0")), {"x": value, **more}).doubt


def test_a_strange_name_of_an_argument_hides_no_other() -> None:
    listed = rules(("ask", "args.x == 'a' && args.exists(name, name == 'y')"))
    assert decide(listed, {"x": "b", "\ud800": 1}).then is Then.ALLOW
    assert decide(listed, {"x": "a", "\ud800": 1}).doubt


def test_all_arguments_together_have_defaults_and_leave_those_that_are_named_known() -> None:
    """Where nothing else of the list names them."""
    for when, arguments, met in (
        ('!has(args.to) && args.all(name, name in ["environment", "version"])', {"version": "1"}, True),
        ('!has(args.to) && args.all(name, name in ["environment", "version"])', {"version": "1", "to": "x"}, False),
        ('args.environment == "production" && size(args) == 2', {"version": "1"}, True),
        ('args.exists(name, name == "environment")', {"version": "1"}, True),
        ("size(args) == 2", {"environment": "staging", "version": "1"}, True),
    ):
        assert decide(rules(("allow", when), ("deny", "")), arguments).then is (Then.ALLOW if met else Then.DENY), when


def test_a_rule_on_trial_is_only_told() -> None:
    listed = RuleList(
        4,
        (
            Rule(name="trial", when="args.amount > 1", then=Then.DENY, shadow=True),
            Rule(name="trial of all", when="", then=Then.DENY, shadow=True),
            Rule(name="off", when="", then=Then.DENY, enabled=False),
            Rule(name="ask", when="", then=Then.ASK),
        ),
    )
    found = decide(Rules(listed), {"amount": 2})
    assert (found.then, found.shadows) == (Then.ASK, ("trial", "trial of all"))
    assert decide(Rules(listed), {"amount": 1}).shadows == ("trial of all",)


def test_hiding_is_decided_by_the_first_rule_that_counts_for_every_call() -> None:
    listed = rules(
        ("allow", "client.name == 'admin-bot'"),
        ("ask", "tool.name == 'deploy' && args.environment == 'production'"),
        ("hide", "tool.destructive"),
    )
    assert listed.hide
    assert listed.hides(CI, DEPLOY)
    assert not listed.hides(CI, STATUS)
    assert not listed.hides(replace(CI, name="admin-bot"), DEPLOY)
    assert decide(listed, {"environment": "staging", "version": "1"}).then is Then.DENY


@pytest.mark.parametrize("when", ["args.x == 1", "time.getHours() < 6", "client.program == 'x'", "size(args) == 1"])
def test_hiding_by_what_lists_do_not_know_is_refused(when: str) -> None:
    listed = [Rule(name="a", when="", then=Then.ASK), Rule(name="b", when=when, then=Then.HIDE)]
    with pytest.raises(Invalid) as refused:
        check_expressions(listed)
    assert refused.value.data["field"] == "rules.1.when"
    check_expressions([replace(listed[1], then=Then.DENY)])


def test_the_rule_whose_expression_means_nothing_is_named() -> None:
    with pytest.raises(Invalid) as refused:
        check_expressions([Rule(name="a", when="", then=Then.ASK), Rule(name="b", when="tool.nmae", then=Then.ASK)])
    assert refused.value.data["field"] == "rules.1.when"
    assert "tool has the members" in refused.value.message


def test_a_rule_on_servers_hides_their_prompts_and_resources_too() -> None:
    listed = rules(("hide", "server.name == 'ops' && client.name != 'admin-bot'"))
    assert listed.hides_server(CI, "ops")
    assert not listed.hides_server(CI, "docs")
    assert not listed.hides_server(replace(CI, name="admin-bot"), "ops")
    assert not rules(("hide", "tool.destructive")).hides_server(CI, "ops")


def test_a_server_is_hidden_in_doubt_too() -> None:
    listed = rules(("hide", "server.name == 'ops' && client.scopes[9] != 'x'"))
    assert listed.hides(CI, DEPLOY)
    assert listed.hides_server(CI, "ops")
    assert not listed.hides_server(CI, "docs")


@pytest.mark.parametrize("above", ["has(args.dry_run)", "time.getHours() == 12", "client.program == 'agent'"])
def test_what_is_hidden_is_not_called_by_a_rule_on_calls_above(above: str) -> None:
    listed = rules(("allow", above), ("hide", "server.name == 'ops'"))
    assert listed.hides(CI, DEPLOY)
    found = decide(listed, {"dry_run": True})
    assert (found.then, found.rule and found.rule.name) == (Then.DENY, "r1")


def test_rules_that_take_too_long_are_in_doubt(time_limit: None) -> None:
    slow = "||".join(f"args.service.matches('[ab]*a[ab]{{200}}c{n}')" for n in range(8))
    listed = rules(("allow", f"!args.many.exists(i, {slow})"))
    call = {"service": "".join(random.Random(1).choices("ab", k=18_000)), "many": ["x"] * MAX_ITEMS}
    assert decide(listed, call).rule is None
    assert cpu_seconds(lambda: decide(listed, call)) < 0.5


def test_what_nobody_knows_of_a_client_is_in_doubt() -> None:
    listed = rules(("ask", "'tasks:answer' in client.scopes"))
    assert decide(listed, {}).then is Then.ALLOW
    again = listed.decide(replace(CI, scopes=None), DEPLOY, {}, program="", now=NOON)
    assert (again.then, again.doubt) == (Then.ASK, True)


def test_time_is_looked_at_for_each_call() -> None:
    listed = rules(("deny", "time.getHours() < 6 || time.getHours() >= 20"))
    night = listed.decide(CI, DEPLOY, {}, program="", now=NOON.replace(hour=3))
    assert night.then is Then.DENY
    assert listed.decide(CI, DEPLOY, {}, program="", now=NOON).then is Then.ALLOW


PARTS = st.sampled_from(
    [
        "tool.readOnly",
        "tool.destructive",
        "client.name == 'ci-bot'",
        "args.amount > 10",
        "args.environment == 'production'",
        "has(args.version)",
        "time.getHours() < 6",
        "args.absent == 1",
    ]
)
EXPRESSIONS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} && {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} || {two[1]})"),
        inner.map(lambda one: f"!({one})"),
    ),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "amount": st.sampled_from([5, 50, "50", None]),
        "environment": st.sampled_from(["production", "staging", 1, None]),
        "version": st.sampled_from(["1", 2]),
    },
)


@given(st.lists(st.tuples(st.sampled_from(["deny", "ask", "allow"]), EXPRESSIONS), max_size=6), CALLS, st.booleans())
def test_what_is_remembered_of_a_tool_changes_no_verdict(
    listed: list[tuple[str, str]], arguments: dict[str, Any], read_only: bool
) -> None:
    """The rules one by one, each alone, give the verdict of the list."""
    tool = STATUS if read_only else DEPLOY
    together = rules(*listed)
    decide(together, {"amount": 1, "environment": "x", "version": "1"}, tool)
    expected = next(
        (n for n, one in enumerate(listed) if decide(rules(one), arguments, tool).rule is not None),
        None,
    )
    found = decide(together, arguments, tool)
    assert (found.rule and found.rule.name) == (None if expected is None else f"r{expected}")
    assert found.then == ("allow" if expected is None else listed[expected][0])


@given(
    st.lists(st.tuples(st.sampled_from(["hide", "deny", "ask", "allow"]), EXPRESSIONS, st.booleans()), max_size=6),
    CALLS,
    st.booleans(),
)
def test_without_the_rules_that_concern_no_call_of_a_tool_the_verdict_is_the_same(
    given_rules: list[tuple[str, str, bool]], arguments: dict[str, Any], read_only: bool
) -> None:
    tool = STATUS if read_only else DEPLOY
    listed = RuleList(
        3,
        tuple(
            Rule(name=f"r{n}", when=when, then=Then(then), shadow=shadow)
            for n, (then, when, shadow) in enumerate(given_rules)
        ),
    )
    by_tool, by_all = Rules(listed), _ByAll(listed)
    assert decide(by_tool, arguments, tool) == decide(by_all, arguments, tool)
    assert by_tool.hides(CI, tool) == by_all.hides(CI, tool)


class _ByAll(Rules):
    def concerning(self, tool: ToolRecord) -> Steps[Sequence[CompiledRule]]:
        yield from ()
        return self.rules


def test_what_names_other_tools_is_looked_at_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = rules(
        *(("ask", f"args.environment == 'production' && tool.name == 'tool-{n}'") for n in range(99)),
        ("ask", "args.environment == 'production' && client.name == 'other'"),
    )
    looks: list[str] = []
    met = Expression.met

    def counted(self: Expression, values: Values) -> bool | None:
        looks.append(self.text)
        return met(self, values)

    monkeypatch.setattr(Expression, "met", counted)
    decide(listed, {"environment": "staging"})
    looks.clear()
    for program in ("one", "two"):
        listed.decide(CI, DEPLOY, {"environment": "staging"}, program=program, now=NOON)
    assert len(looks) == 2, "the last rule, for each program"


def test_200_rules_cost_less_than_0_3_ms_a_call() -> None:
    listed = rules(
        *(
            ("ask", f"server.name == 'ops' && tool.name == 'tool-{n}' && args.environment == 'production'")
            for n in range(190)
        ),
        *(("deny", f"tool.name == 'deploy' && like(args.environment, 'e{n}')") for n in range(9)),
        ("allow", "tool.readOnly"),
    )
    call = {"environment": "staging", "version": "1.0.42", "amount": 3}
    decide(listed, call)
    assert cpu_seconds(lambda: decide(listed, call), tries=300, of=statistics.median) < 0.0003
