"""Tries a list of rules on calls that were made: what this list would have done with them, beside what the list in
force would have done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.records import ToolRecord
from taskhub.core.rules import Client, Rule, RuleList, SignedIn, Then, Verdict, check_rules, signed_in
from taskhub.domain.rules.decisions import Rules, check_expressions
from taskhub.domain.rules.reads import present
from taskhub.domain.rules.sentences import check_sentences
from taskhub.store import statements

MAX_CALLS: Final = 1_000
"""The most calls on which a list is tried: the newest."""
MAX_SECONDS: Final = 1.0
"""Seconds for a trial; calls that are left after that are not tried. For 1,000 calls, 200 rules that compare arguments
would take 5 s if they name no tool, and less than 1 s if they do."""
MAX_SIZE: Final = 20_000
"""The most bytes of a call's arguments, as they are stored. A larger call is not tried."""


@dataclass(frozen=True, slots=True)
class _Call:
    public_id: str
    tool_id: int
    tool_name: str
    created_at: datetime
    arguments: dict[str, Any] | None
    program: str
    context_id: int
    name: str
    issuer: str
    subject: str
    client_id: str
    scopes: frozenset[str] | None
    person: SignedIn

    @property
    def client(self) -> Client:
        """The client, with its scopes only if the call was decided by rules."""
        return Client(self.context_id, self.name, self.issuer, self.subject, self.client_id, self.scopes, self.person)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a list of rules does with a call. `then` is `None` if no rule matches, and the call runs."""

    then: Then | None
    rule: str = ""
    doubt: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """A call of the past. `before`: what the list in force does with it; `after`: what the tried list does."""

    public_id: str
    tool: str
    client: str
    at: datetime
    before: Outcome
    after: Outcome


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial. `calls`: how many calls were tried. `left_out`: how many were not, because the tool is not
    offered any more or the arguments are too long. `late`: how many were not for lack of time. `before` and `after`:
    how many calls the list in force, and the tried list, decide in each way; `None` stands for no matching rule."""

    calls: int
    left_out: int
    late: int
    before: Mapping[Then | None, int]
    after: Mapping[Then | None, int]
    on_trial: Mapping[str, int]
    """For each rule of the tried list that is on trial, by name: how many calls it matches before another rule
    decides."""
    in_force: bool
    """Whether the tried list is the one in force."""
    different: tuple[Tried, ...]
    """The calls with which the two lists do different things, newest first."""


def _scopes(value: Any) -> frozenset[str]:
    return frozenset(statements.from_json(value))


def _person(found: Any) -> SignedIn:
    return signed_in(statements.from_json(found))


_CONVERT: Final[dict[str, Any]] = {"arguments": statements.from_json, "scopes": _scopes, "person": _person}
_CALLS = statements.many("calls_to_try", _Call, convert=_CONVERT)


def try_rules(tenant_id: int, rules: Sequence[Rule], offered: Iterable[ToolRecord], *, most: int = MAX_CALLS) -> Trial:
    """Try the list on the newest calls of the tenant, of the tools that it offers. Rules on trial decide nothing here
    either: what they match is counted. Raises `Invalid`, as saving the list would, unless it is the list in force.

    The scopes of a client's token are stored only where rules were in force; for other calls, rules that use scopes are
    in doubt.
    """
    listed = present(tenant_id)
    if tuple(rules) != listed.rules:
        check_rules(rules)
        check_expressions(rules)
        check_sentences(rules)
    tools = {tool.id: tool for tool in offered}
    lists = [Rules(listed), Rules(RuleList(listed.version + 1, tuple(rules)))]
    tried = []
    until = time.monotonic() + MAX_SECONDS
    calls = _CALLS(tenant=tenant_id, size=MAX_SIZE, most=most)
    late = 0
    on_trial = Counter({rule.name: 0 for rule in rules if rule.shadow and rule.enabled})
    for n, call in enumerate(calls):
        if time.monotonic() > until:
            late = len(calls) - n
            break
        tool = tools.get(call.tool_id)
        if tool is None or call.arguments is None:
            continue
        before, after = (
            one.decide(call.client, tool, call.arguments, program=call.program, now=call.created_at) for one in lists
        )
        on_trial.update(after.shadows)
        tried.append(
            Tried(call.public_id, call.tool_name, call.name, call.created_at, _outcome(before), _outcome(after))
        )
    return Trial(
        len(tried),
        len(calls) - len(tried) - late,
        late,
        Counter(one.before.then for one in tried),
        Counter(one.after.then for one in tried),
        on_trial,
        tuple(rules) == listed.rules,
        tuple(one for one in tried if one.before.then is not one.after.then),
    )


def _outcome(verdict: Verdict) -> Outcome:
    rule = verdict.rule
    return Outcome(None) if rule is None else Outcome(rule.then, rule.name, verdict.doubt)
