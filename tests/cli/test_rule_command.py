"""`manage.py rule`: the rules are listed and replaced from a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from taskhub.domain.clients.principals import default_tenant
from taskhub.store.models import RuleVersion
from tests.cli.shell import run
from tests.factories import make_server, make_tool

pytestmark = pytest.mark.django_db

RULES: list[dict[str, Any]] = [
    {"name": "read", "when": "tool.readOnly", "then": "allow"},
    {"name": "deploys", "when": "tool.name == 'deploy'", "then": "ask", "group": "ops", "quorum": 2, "shadow": True},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rules.json"


def test_what_is_listed_can_be_set(file: Path) -> None:
    assert run("rule", "list") == (0, "No rules were saved yet.\n", "")
    file.write_text(json.dumps(RULES))
    saved = "Version 1 with 2 rules is in force for new calls.\n"
    few = (
        "Warning: deploys: Nobody in the group ops may approve, and 2 are needed: such a call waits until its time is"
        " over, and is then denied.\n"
    )
    assert run("rule", "set", str(file), "--reason", "a start") == (0, saved + few, "")
    assert RuleVersion.objects.get().reason == "a start"
    code, listed, _ = run("rule", "list", "--json")
    assert (code, json.loads(listed)) == (0, RULES)
    file.write_text(listed)
    assert run("rule", "set", str(file)) == (0, "Nothing differs from version 1.\n" + few, "")
    assert run("rule", "list")[1].splitlines() == [
        "Version 1.",
        "  1  allow  read",
        "            when tool.readOnly",
        "  2  ask    deploys  (on trial)",
        "            when tool.name == 'deploy'",
        "            quorum 2, group ops",
    ]


def test_the_list_has_all_that_a_rule_says(file: Path) -> None:
    asks = {"not_requester": True, "risk": "high", "sentence": "Deploy {args.x}", "expires_minutes": 60, "group": "a"}
    ends = {"otherwise": "escalate", "escalate_to": "b"}
    denies = {"name": "no", "when": "", "then": "deny", "words": "Sleep."}
    file.write_text(json.dumps([{"name": "all", "when": "", "then": "ask", **asks, **ends}, denies]))
    run("rule", "set", str(file))
    assert run("rule", "list")[1].splitlines()[1:] == [
        "  1  ask    all",
        "            when any call",
        "            quorum 1, group a, not_requester, risk high, expires_minutes 60, "
        "otherwise escalate, escalate_to b",
        "            sentence “Deploy {args.x}”",
        "  2  deny   no",
        "            when any call",
        "            words “Sleep.”",
    ]


def test_what_is_in_doubt_for_tools_without_an_argument_is_told_when_it_is_set(file: Path) -> None:
    make_tool(make_server(default_tenant()), "status")
    file.write_text(json.dumps([*RULES, {"name": "pay", "when": "args.amount > 5", "then": "deny"}]))
    code, told, _ = run("rule", "set", str(file))
    assert (code, [line for line in told.splitlines() if "pay" in line]) == (
        0,
        [
            "Warning: pay: The only tool has no argument amount: every call of them is in doubt, and so denied. "
            "No tool has it: look at how it is spelled."
        ],
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("[", "is no JSON"),
        ('[{"name": "a", "when": "", "then": "ask"}, 5]', "Rule 2: A rule is an object"),
        ("{}", "rules: The rules are a list."),
        ('[{"name": "a", "when": "tool.nmae", "then": "ask"}]', "Rule 1, when: At character 1: tool has the members"),
        ('[{"name": "a", "when": "", "then": "maybe"}]', "Rule 1, then: Give one of hide, deny, ask, allow"),
        ('[{"name": "a", "when": "args.x == 1", "then": "hide"}]', "Rule 1, when: A rule that hides tools"),
    ],
)
def test_what_cannot_be_set_is_named_and_changes_nothing(file: Path, given: str, told: str) -> None:
    file.write_text(given)
    with pytest.raises(CommandError) as refused:
        run("rule", "set", str(file))
    assert told in str(refused.value)
    assert not RuleVersion.objects.exists()
