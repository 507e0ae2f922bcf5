"""Rules that ask people of whom too few may approve."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.rules import Otherwise, Rule, Then
from taskhub.domain.rules.approvers import too_few

THERE = {"": 4, "ops": 2, "legal": 1}
WITH_FACTOR = {"": 2, "ops": 1}


def told(then: Then = Then.ASK, **parts: Any) -> list[str]:
    return [few.words for few in too_few([Rule(name="r", when="", then=then, **parts)], THERE, WITH_FACTOR)]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"quorum": 4},
        {"quorum": 3, "not_requester": True},
        {"group": "ops", "quorum": 2},
        {"group": "ops", "otherwise": Otherwise.ESCALATE, "escalate_to": "legal"},
        {"then": Then.DENY, "group": "nobody"},
        {"group": "ops", "second_factor": True},
        {"quorum": 2, "second_factor": True},
    ],
)
def test_where_enough_may_approve_nothing_is_said(parts: dict[str, Any]) -> None:
    assert told(**parts) == []


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"group": "nobody"},
            "Nobody in the group nobody may approve, and 1 is needed: such a call waits until its time is over, and is "
            "then denied.",
        ),
        (
            {"group": "legal", "quorum": 2, "otherwise": Otherwise.ALLOW},
            "Only 1 person in the group legal may approve, and 2 are needed: such a call waits until its time is over, "
            "and then runs without their approval.",
        ),
        (
            {"quorum": 5},
            "Only 4 people may approve, and 5 are needed: such a call waits until its time is over, and is then "
            "denied.",
        ),
        (
            {"group": "ops", "quorum": 2, "not_requester": True},
            "Only 2 people in the group ops may approve, and 2 are needed besides whoever made the call: a "
            "call by one of them waits until its time is over, and is then denied.",
        ),
        (
            {"group": "nobody", "otherwise": Otherwise.ESCALATE, "escalate_to": "legal"},
            "Nobody in the group nobody may approve, and 1 is needed: such a call waits until its time is over, and "
            "then waits for the group legal.",
        ),
        (
            {"otherwise": Otherwise.ESCALATE, "escalate_to": "legal", "quorum": 2},
            "If nobody decides in time: only 1 person in the group legal may approve, and 2 are needed: such a call is "
            "then denied.",
        ),
    ],
)
def test_where_too_few_may_approve_it_says_what_follows(parts: dict[str, Any], words: str) -> None:
    assert told(**parts) == [words]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"group": "ops", "quorum": 2},
            "Only 1 person in the group ops may approve and has the second factor that the rule wants, and 2 are"
            " needed: such a call waits until its time is over, and is then denied.",
        ),
        (
            {"group": "legal"},
            "Nobody in the group legal may approve and has the second factor that the rule wants, and 1 is needed: such"
            " a call waits until its time is over, and is then denied.",
        ),
        (
            {"quorum": 3},
            "Only 2 people may approve and have the second factor that the rule wants, and 3 are needed: such a call"
            " waits until its time is over, and is then denied.",
        ),
        # Where too few may approve at all, that comes first.
        (
            {"group": "legal", "quorum": 2},
            "Only 1 person in the group legal may approve, and 2 are needed: such a call waits until its time is over,"
            " and is then denied.",
        ),
        (
            {"otherwise": Otherwise.ESCALATE, "escalate_to": "legal"},
            "If nobody decides in time: nobody in the group legal may approve and has the second factor that the rule"
            " wants, and 1 is needed: such a call is then denied.",
        ),
    ],
)
def test_people_without_the_second_factor_that_a_rule_wants_do_not_count(parts: dict[str, Any], words: str) -> None:
    assert told(second_factor=True, **parts) == [words]


def test_both_groups_are_looked_at() -> None:
    assert len(told(group="nobody", otherwise=Otherwise.ESCALATE, escalate_to="none", quorum=1)) == 2
