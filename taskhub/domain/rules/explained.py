"""Says why a list of rules decides a call as it does; and what may become of a client's calls of a tool, whatever their
arguments are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from taskhub.core.records import ToolRecord
from taskhub.core.rules import Client, Rule, Then, Verdict
from taskhub.domain.rules.decisions import CompiledRule, Rules, call_values, lasting_values
from taskhub.domain.rules.expressions import Expression, Values


class Why(StrEnum):
    """What a rule has to do with a call."""

    DECIDES = "decides"
    NOT_MET = "not_met"
    DOUBT = "doubt"
    """The rule is in doubt, and since it allows, it does not match."""
    TRIAL = "trial"
    """The rule matches, but is on trial."""
    OFF = "off"
    OVERRULED = "overruled"
    """The rule matches the call, but a rule below it hides the tool, and that decides."""


@dataclass(frozen=True, slots=True)
class Step:
    """A rule of the list and what it has to do with the call. `place`: its position in the list, from 1. `doubt`:
    whether the rule matches only because it is in doubt."""

    place: int
    rule: Rule
    why: Why
    doubt: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """What a list of rules decides of a call. `steps`: the rules up to the one that decides, or all rules if none
    does."""

    verdict: Verdict
    hidden: bool
    """Whether the client does not know of the tool."""
    steps: tuple[Step, ...]
    left: int
    """How many rules stand below the one that decides."""


def explain(
    rules: Rules, client: Client, tool: ToolRecord, arguments: Mapping[str, Any], *, program: str, now: datetime
) -> Explained:
    """The verdict of `Rules.decide` on the call, with the reasons."""
    verdict = rules.decide(client, tool, arguments, program=program, now=now)
    hidden = rules.hidden_by(client, tool) is not None
    may_match = {one.rule.name: one.when for one in rules.may_match(client, tool, program)}
    known = {one.rule.name: one for one in rules.rules}

    def values(expressions: Sequence[Expression]) -> Values:
        return call_values(expressions, client, tool, arguments, program=program, now=now)

    # One set of values for all these rules, as in `Rules.decide`: which arguments it has depends on all of them.
    together = values(list(may_match.values()))
    steps = []
    for place, rule in enumerate(rules.listed.rules, 1):
        one = known.get(rule.name)
        if one is None:
            steps.append(Step(place, rule, Why.OFF))
            continue
        met = one.when.met(together if rule.name in may_match else values([one.when]))
        if rule == verdict.rule:
            steps.append(Step(place, rule, Why.DECIDES, met is None))
            break
        steps.append(_passed(place, one, met))
    return Explained(verdict, hidden, tuple(steps), len(rules.listed.rules) - len(steps))


def _passed(place: int, one: CompiledRule, met: bool | None) -> Step:
    """The step of a rule that does not decide."""
    if one.matches(met):
        return Step(place, one.rule, Why.TRIAL if one.rule.shadow else Why.OVERRULED, met is None)
    return Step(place, one.rule, Why.NOT_MET if met is False else Why.DOUBT)


class Unknown(StrEnum):
    """What a verdict may depend on, besides client and tool."""

    ARGUMENTS = "arguments"
    TIME = "time"
    PROGRAM = "program"
    """The name that the client's program gives itself."""
    SCOPES = "scopes"
    """What the client's token allows, if that is not known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What may become of a call. `rule`: the rule that decides; `None` if no rule does."""

    then: Then
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What may become of a client's calls of a tool."""

    outcomes: tuple[Outcome, ...]
    """In the order of the rules. Each may apply to a call; the last applies if none of the others does."""
    unknown: frozenset[Unknown]
    """What the outcome depends on, if there are several."""

    @property
    def then(self) -> Then | None:
        """What happens to every call; `None` if calls differ."""
        found = {outcome.then for outcome in self.outcomes}
        return found.pop() if len(found) == 1 else None


def outlook(rules: Rules, client: Client, tool: ToolRecord) -> Outlook:
    """What may become of the client's calls of the tool, by the rules. Arguments, time and program are
    unknown; so are the scopes if the client's are `None`."""
    scopes_known = client.scopes is not None
    if (hides := rules.hidden_by(client, tool)) is not None:
        unsure = not scopes_known and _by_scopes(rules, client, tool, hides)
        return Outlook((Outcome(Then.HIDE, hides),), frozenset({Unknown.SCOPES} if unsure else ()))
    values = Values(lasting_values(client, tool, None))
    outcomes: list[Outcome] = []
    unknown: set[Unknown] = set()
    for one in rules.rules:
        if one.rule.shadow:
            continue
        met = one.when.met(values)
        then = one.rule.then
        if then is Then.HIDE and Unknown.SCOPES not in unknown:
            then = Then.DENY  # the client knows of the tool
        depends = _depends(one.when, scopes_known=scopes_known)
        if met is None and depends:
            outcomes.append(Outcome(then, one.rule))
            unknown |= depends
        elif one.matches(met):
            outcomes.append(Outcome(then, one.rule))
            break
    else:
        outcomes.append(Outcome(Then.ALLOW))
    return Outlook(tuple(outcomes), frozenset(unknown))


def _by_scopes(rules: Rules, client: Client, tool: ToolRecord, hides: Rule) -> bool:
    """Whether it depends on unknown scopes if the tool is hidden: by the rule `hides`, or by a rule above it that may
    show the tool."""
    values = Values(lasting_values(client, tool, ""))
    for one in rules.rules:
        if one.when.of_scopes and one.when.lasting and not one.rule.shadow and one.when.met(values) is None:
            return True
        if one.rule == hides:
            break
    return False


def _depends(when: Expression, *, scopes_known: bool) -> set[Unknown]:
    found = {
        Unknown.ARGUMENTS: when.arguments != frozenset(),
        Unknown.TIME: when.timed,
        Unknown.PROGRAM: when.of_program,
        Unknown.SCOPES: when.of_scopes and not scopes_known,
    }
    return {unknown for unknown, counts in found.items() if counts}
