"""What is decided of a permit when it is redeemed: by the rules of that moment, not by those of the request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.approvals import Api, question_of
from tests.support.hub import RunningHub
from tests.support.person import Person
from tests.support.policies import rules_in_force

pytestmark = pytest.mark.processes


def test_the_rules_decide_again_when_it_is_redeemed(hub: RunningHub) -> None:
    api = Api(hub)
    allowed, denied, hidden = api.ask("Bob"), api.ask("Kim"), api.ask("Lou")
    rules: tuple[dict[str, Any], ...] = (
        {"name": "not Kim", "when": "tool.name == 'greet' && args.name == 'Kim'", "then": "deny"},
        {"name": "Bob is asked about", "when": "tool.name == 'greet' && args.name == 'Bob'", "then": "ask"},
    )
    with rules_in_force(hub, *rules):
        assert api.redeem(denied, "Kim") == (409, "denied")
        assert api.redeem(allowed) == (409, "approval_needed")
    with rules_in_force(hub, {"name": "hidden", "when": f"client.name == '{api.name}'", "then": "hide"}):
        assert api.redeem(hidden, "Lou") == (409, "withdrawn")
    assert api.redeem(allowed) == (200, "redeemed")
    assert api.redeem(hidden, "Lou") == (200, "redeemed")


def test_an_approval_stands_as_long_as_nobody_else_would_be_asked(hub: RunningHub) -> None:
    api = Api(hub)
    asks = {"name": "Ann is asked about", "when": "tool.name == 'greet' && args.name == 'Ann'", "then": "ask"}
    with rules_in_force(hub, asks), Person(hub, "approver") as approver:
        pending = [api.ask("Ann") for _ in range(2)]
        for one in pending:
            approver.decide(question_of(hub, one["id"]))
        first, second = [api.read(one["id"]) for one in pending]
    other = {"name": "Eve is away", "when": "tool.name == 'greet' && args.name == 'Eve'", "then": "deny"}
    with rules_in_force(hub, other, {**asks, "quorum": 2}):
        assert api.redeem(first, "Ann") == (409, "approval_needed")
    with rules_in_force(hub, other, asks):
        assert api.redeem(first, "Ann") == (200, "redeemed")
    assert api.redeem(second, "Ann") == (200, "redeemed"), "no rule asks any more"
