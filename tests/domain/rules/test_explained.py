"""Why a list of rules decides a call as it does, and what may become of calls whose arguments are not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskhub.core.records import ToolRecord
from taskhub.core.rules import MAX_RULES, Client, Rule, RuleList, Then
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.explained import Explained, Outlook, Unknown, Why, explain, outlook
from tests.domain.rules.test_decisions import CALLS, CI, DEPLOY, EXPRESSIONS, NOON, STATUS, rules
from tests.support.cost import cpu_seconds

LISTED = RuleList(
    7,
    (
        Rule(name="off", when="", then=Then.DENY, enabled=False),
        Rule(name="other", when="tool.name == 'other'", then=Then.DENY),
        Rule(name="trial", when="args.amount > 1", then=Then.DENY, shadow=True),
        Rule(name="small", when="args.amount < 10", then=Then.ALLOW),
        Rule(name="large", when="args.amount > 1000", then=Then.ASK),
        Rule(name="rest", when="", then=Then.ASK),
        Rule(name="never", when="", then=Then.DENY),
    ),
)


def why(
    listed: RuleList, arguments: dict[str, Any], tool: ToolRecord = DEPLOY, program: str = "agent"
) -> tuple[Explained, list[tuple[str, bool]]]:
    found = explain(Rules(listed), CI, tool, arguments, program=program, now=NOON)
    return found, [(str(step.why), step.doubt) for step in found.steps]


def test_each_rule_up_to_the_one_that_decides_says_why() -> None:
    found, steps = why(LISTED, {"amount": 50})
    assert (found.verdict.rule and found.verdict.rule.name, found.hidden, found.left) == ("rest", False, 1)
    assert steps == [
        ("off", False),
        ("not_met", False),
        ("trial", False),
        ("not_met", False),
        ("not_met", False),
        ("decides", False),
    ]
    assert [step.place for step in found.steps] == [1, 2, 3, 4, 5, 6]
    found, steps = why(LISTED, {"amount": "50"})
    assert steps[2:] == [("trial", True), ("doubt", False), ("decides", True)]
    assert (found.verdict.doubt, found.left) == (True, 2)
    found, steps = why(RuleList(1, LISTED.rules[:2]), {})
    assert (found.verdict.rule, found.left, len(steps)) == (None, 0, 2)


def test_a_rule_on_calls_above_one_that_hides_is_overruled() -> None:
    listed = rules(("allow", "has(args.dry_run)"), ("ask", "args.amount > 1"), ("hide", "tool.destructive")).listed
    found, steps = why(listed, {"dry_run": True})
    assert (found.hidden, found.verdict.then) == (True, Then.DENY)
    assert steps == [("overruled", False), ("overruled", True), ("decides", False)]


RULES = st.lists(
    st.tuples(st.sampled_from(["deny", "ask", "allow"]), EXPRESSIONS, st.booleans(), st.booleans())
    | st.tuples(
        st.just("hide"),
        st.sampled_from(["tool.destructive", "client.name == 'ci-bot'", "false", "'tasks:read' in client.scopes"]),
        st.booleans(),
        st.booleans(),
    )
    | st.tuples(
        st.sampled_from(["deny", "ask", "allow"]),
        st.sampled_from(["client.program == 'x'", "'tasks:call' in client.scopes", "size(args) == 1"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)


def listed_as(given_rules: list[tuple[str, str, bool, bool]]) -> RuleList:
    return RuleList(
        1,
        tuple(
            Rule(name=f"r{n}", when=when, then=Then(then), enabled=enabled or shadow, shadow=shadow and not enabled)
            for n, (then, when, enabled, shadow) in enumerate(given_rules)
        ),
    )


PROGRAMS = st.sampled_from(["", "x", "agent"])
SCOPES = st.sampled_from([None, frozenset[str](), frozenset({"tasks:call"}), frozenset({"tasks:read"})])


@settings(max_examples=300)
@given(RULES, CALLS, st.booleans(), PROGRAMS, SCOPES)
def test_the_reasons_are_those_of_the_verdict(
    given_rules: list[tuple[str, str, bool, bool]],
    arguments: dict[str, Any],
    read_only: bool,
    program: str,
    scopes: frozenset[str] | None,
) -> None:
    listed, client = Rules(listed_as(given_rules)), replace(CI, scopes=scopes)
    tool = STATUS if read_only else DEPLOY
    verdict = listed.decide(client, tool, arguments, program=program, now=NOON)
    found = explain(listed, client, tool, arguments, program=program, now=NOON)
    assert found.verdict == verdict
    deciding = [step for step in found.steps if step.why is Why.DECIDES]
    assert [step.rule for step in deciding] == ([verdict.rule] if verdict.rule else [])
    assert deciding == list(found.steps[-1:]) or not deciding
    if not found.hidden:
        assert all(step.why is not Why.OVERRULED for step in found.steps)
        assert tuple(step.rule.name for step in found.steps if step.why is Why.TRIAL) == verdict.shadows
        assert all(step.doubt == verdict.doubt for step in deciding)
    assert len(found.steps) + found.left == len(listed.listed.rules)


@settings(max_examples=300)
@given(RULES, CALLS, st.booleans(), PROGRAMS, SCOPES, st.integers(0, 23), st.booleans())
def test_no_call_comes_to_anything_else_than_was_said_before(
    given_rules: list[tuple[str, str, bool, bool]],
    arguments: dict[str, Any],
    read_only: bool,
    program: str,
    scopes: frozenset[str] | None,
    hour: int,
    told: bool,
) -> None:
    """Whatever the arguments, the hour and the program are, and the scopes where they are not known."""
    listed, client = Rules(listed_as(given_rules)), replace(CI, scopes=scopes)
    tool = STATUS if read_only else DEPLOY
    known = client if told else replace(client, scopes=None)
    found = outlook(listed, known, tool)
    verdict = listed.decide(client, tool, arguments, program=program, now=NOON.replace(hour=hour))
    hidden = listed.hides(client, tool)
    if found.outcomes[0].then is Then.HIDE:
        assert hidden or Unknown.SCOPES in found.unknown
        return
    outcomes = [(outcome.then, outcome.rule) for outcome in found.outcomes]
    if Unknown.SCOPES in found.unknown:
        outcomes += [(Then.DENY, rule) for then, rule in outcomes if then is Then.HIDE]
    else:
        assert not hidden
    assert (verdict.then, verdict.rule) in outcomes
    if len(outcomes) > 1:
        assert found.unknown


def look(*given_rules: tuple[str, str], tool: ToolRecord = DEPLOY, client: Client = CI) -> Outlook:
    return outlook(rules(*given_rules), client, tool)


def said(found: Outlook) -> list[tuple[str, str | None]]:
    return [(str(outcome.then), outcome.rule and outcome.rule.name) for outcome in found.outcomes]


@pytest.mark.parametrize(
    ("given_rules", "outcomes", "unknown"),
    [
        ([], [("allow", None)], set()),
        ([("deny", "tool.name == 'x'")], [("allow", None)], set()),
        ([("deny", "tool.destructive")], [("deny", "r0")], set()),
        ([("hide", "tool.destructive")], [("hide", "r0")], set()),
        ([("ask", "args.amount > 1")], [("ask", "r0"), ("allow", None)], {"arguments"}),
        ([("ask", "has(args.amount)")], [("ask", "r0"), ("allow", None)], {"arguments"}),
        ([("ask", "size(args) > 1")], [("ask", "r0"), ("allow", None)], {"arguments"}),
        ([("allow", "args.amount < 5"), ("deny", "")], [("allow", "r0"), ("deny", "r1")], {"arguments"}),
        ([("deny", "time.getHours() > 20"), ("ask", "")], [("deny", "r0"), ("ask", "r1")], {"time"}),
        ([("allow", "client.program == 'x'"), ("ask", "")], [("allow", "r0"), ("ask", "r1")], {"program"}),
        ([("ask", "tool.readOnly && args.amount > 1")], [("allow", None)], set()),
        ([("ask", "tool.destructive || args.amount > 1")], [("ask", "r0")], set()),
        ([("ask", "args.amount > 1"), ("ask", "")], [("ask", "r0"), ("ask", "r1")], {"arguments"}),
        ([("ask", "tool.annotations.other == 1"), ("deny", "")], [("ask", "r0")], set()),
        ([("allow", "tool.annotations.other == 1"), ("deny", "")], [("deny", "r1")], set()),
        ([("allow", "'tasks:call' in client.scopes"), ("deny", "")], [("allow", "r0")], set()),
    ],
)
def test_what_may_become_of_calls_whose_arguments_are_not_known(
    given_rules: list[tuple[str, str]], outcomes: list[tuple[str, str | None]], unknown: set[str]
) -> None:
    found = look(*given_rules)
    assert said(found) == outcomes
    assert found.unknown == unknown
    assert found.then == (outcomes[0][0] if len({then for then, _ in outcomes}) == 1 else None)


def test_what_hides_a_tool_may_depend_on_scopes_that_nobody_knows() -> None:
    unknown = replace(CI, scopes=None)
    found = look(("hide", "!('tasks:call' in client.scopes)"), client=unknown)
    assert (said(found), found.unknown) == ([("hide", "r0")], {Unknown.SCOPES})
    assert said(look(("hide", "!('tasks:call' in client.scopes)"))) == [("allow", None)]
    found = look(("allow", "'tasks:call' in client.scopes"), ("hide", "tool.destructive"), client=unknown)
    assert (said(found), found.unknown) == ([("hide", "r1")], {Unknown.SCOPES})
    found = look(("ask", "'tasks:call' in client.scopes"), ("hide", "tool.destructive"), client=unknown)
    assert (said(found), found.unknown) == ([("ask", "r0"), ("hide", "r1")], {Unknown.SCOPES})
    found = look(("allow", "'tasks:call' in client.scopes"), ("deny", ""), client=unknown)
    assert (said(found), found.unknown) == ([("allow", "r0"), ("deny", "r1")], {Unknown.SCOPES})


def test_a_rule_on_trial_or_off_has_no_part_in_it() -> None:
    listed = RuleList(1, tuple(replace(rule, enabled=False) for rule in LISTED.rules[:1]) + LISTED.rules[2:3])
    assert said(outlook(Rules(listed), CI, DEPLOY)) == [("allow", None)]


def test_a_page_of_a_list_that_is_full_costs_a_moment() -> None:
    listed = Rules(
        RuleList(
            1,
            tuple(
                Rule(name=f"r{n}", when=f"tool.name == 'tool-{n}' && args.environment == 'production'", then=Then.ASK)
                for n in range(MAX_RULES)
            ),
        )
    )
    tools = [replace(DEPLOY, id=n, name=f"tool-{n}") for n in range(50)]
    outlook(listed, CI, DEPLOY)
    found = [outlook(listed, CI, tool) for tool in tools]
    assert cpu_seconds(lambda: [outlook(listed, CI, tool) for tool in tools]) < 0.2
    assert {len(one.outcomes) for one in found} == {2}
