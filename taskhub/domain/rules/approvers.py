"""Finds rules that need more approvals than people can give. Calls that such a rule asks about wait until their time is
over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskhub.core.rules import Otherwise, Rule, Then

_ENDS: Final = {Otherwise.DENY: "is then denied", Otherwise.ALLOW: "then runs without their approval"}


@dataclass(frozen=True, slots=True)
class TooFew:
    """A rule that needs more approvals than people may give. `there`: how many people may approve. `later`: whether
    this is about the group that is asked if nobody decides in time, not about the rule's own group."""

    rule: Rule
    there: int
    later: bool = False
    with_factor: bool = False
    """Whether `there` counts only people who have a second factor, because the rule wants one."""

    @property
    def words(self) -> str:
        """The problem, and what follows from it."""
        rule, group = self.rule, self.rule.escalate_to if self.later else self.rule.group
        where = f" in the group {group}" if group else ""
        needed = f"{rule.quorum} {'is' if rule.quorum == 1 else 'are'} needed"
        if self.there:
            of = f"Only {self.there} {'person' if self.there == 1 else 'people'}{where} may approve"
        else:
            of = f"Nobody{where} may approve"
        if self.with_factor:
            of += f" and {'has' if self.there < 2 else 'have'} the second factor that the rule wants"
        calls = "such a call"
        if self.there >= rule.quorum:
            needed += " besides whoever made the call"
            calls = "a call by one of them"
        if self.later:
            return f"If nobody decides in time: {of[0].lower()}{of[1:]}, and {needed}: {calls} is then denied."
        end = _ENDS.get(rule.otherwise, f"then waits for the group {rule.escalate_to}")
        return f"{of}, and {needed}: {calls} waits until its time is over, and {end}."


def too_few(rules: Sequence[Rule], there: Mapping[str, int], with_factor: Mapping[str, int]) -> list[TooFew]:
    """The rules of the list that ask too few people, also rules on trial or off. `there`: how many people may approve,
    by the name of their group, and under the empty name how many in all; a group in which nobody may approve can be
    left out. `with_factor`: the same numbers, but only of people who have a second factor."""
    found = []
    for rule in rules:
        if rule.then is not Then.ASK:
            continue
        needed = rule.quorum + rule.not_requester
        for group, later in ((rule.group, False), (rule.escalate_to, True)):
            if later and not group:
                continue
            count = there.get(group, 0)
            # If too few may approve anyway, this is reported, and not that they lack second factors.
            lacking = rule.second_factor and count >= needed
            if lacking:
                count = with_factor.get(group, 0)
            if count < needed:
                found.append(TooFew(rule, count, later=later, with_factor=lacking))
    return found
