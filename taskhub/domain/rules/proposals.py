"""Proposes rules that let calls run about which people were often asked and always agreed. Never for a rule whose risk
is critical, or about a call whose preview changed after people had approved it. The only thing that is saved here is
that a proposal was dismissed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final, NamedTuple

from taskhub.core.errors import Invalid
from taskhub.core.records import Actor, ToolRecord
from taskhub.core.rules import MAX_NAME, MAX_RULES, Client, Risk, Rule, RuleList, SignedIn, Then, signed_in
from taskhub.domain.audit.record import record_event
from taskhub.domain.rules.conditions import MISSING, listed_in, schema_of
from taskhub.domain.rules.decisions import Rules, call_values
from taskhub.domain.rules.expressions import Expression, compiled
from taskhub.domain.rules.kinds import check_kinds
from taskhub.domain.rules.written import Comparison, of_argument, of_client, of_no_others, of_tool
from taskhub.lib import jsonx
from taskhub.store import statements

DAYS: Final = 30
"""How many days back approvals count."""
MAX_DECIDED: Final = 1_000
"""The most approvals of a tenant that are looked at: the ones that were closed last."""
MIN_APPROVED: Final = 20
"""Least number of approved calls for a proposal, which must not let run a call that people did not approve."""
MAX_SIZE: Final = 4_000
"""The most bytes of a call's arguments, as they are stored. Calls with larger arguments are in no proposal."""
MAX_VALUES: Final = 3
"""The most values of an argument that a proposed condition names."""
MAX_VALUE: Final = 200
"""The most characters of a text among these values."""
MAX_CONDITIONS: Final = 20
"""The most arguments that a proposed expression names. Nothing is proposed for a tool with more."""


class _Decided(NamedTuple):
    """An approval that was closed, with its call. `approved`: people approved the call and edited nothing. `withdrawn`:
    the approval was closed before people had decided, such as by a cancellation. `arguments` is `None` if they are
    larger than `MAX_SIZE`."""

    rule: str | None
    approved: bool
    withdrawn: bool
    group: str
    quorum: int
    risk: str
    second_factor: bool
    preview_differed: bool
    definition: str
    opened_at: datetime
    closed_at: datetime
    tool_id: int
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
        """The client that made the call."""
        return Client(self.context_id, self.name, self.issuer, self.subject, self.client_id, self.scopes, self.person)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed `rule`, which could stand right before the rule that asks now. `asking` is the name of that rule,
    `place` its index in the list. `values`: for each argument whose values the proposed expression names, these values.
    `free`: the arguments of which it names no values. `approved`: how many calls of the last `days` days it would have
    let run. All of them were approved, on average after `average`."""

    asking: str
    place: int
    rule: Rule
    context_id: int
    client: str
    tool_id: int
    tool: str
    values: tuple[tuple[str, tuple[Any, ...]], ...]
    free: tuple[str, ...]
    approved: int
    days: int
    average: timedelta

    @property
    def subject(self) -> tuple[str, int, int]:
        """The rule that asks, the client and the tool. There is at most one proposal for each such triple, and
        dismissing it counts for the triple."""
        return (self.asking, self.context_id, self.tool_id)


class _Dismissed(NamedTuple):
    rule: str
    context_id: int
    tool_id: int
    approved: int


def _scopes(value: Any) -> frozenset[str]:
    return frozenset(statements.from_json(value))


def _person(found: Any) -> SignedIn:
    return signed_in(statements.from_json(found))


_CONVERT: Final[dict[str, Any]] = {"arguments": statements.from_json, "scopes": _scopes, "person": _person}
_DECIDED = statements.many("decided_approvals", _Decided, convert=_CONVERT)
_DISMISSED = statements.many("dismissed_proposals", _Dismissed)
_DISMISS = statements.none("dismiss_proposal")


def proposals(tenant_id: int, listed: RuleList, offered: Iterable[ToolRecord]) -> list[Proposal]:
    """The proposals for the tenant, from the approvals of the last days; those with the most approvals come first. A
    dismissed proposal is left out until it has twice as many approvals as when it was dismissed. `offered`: the tools
    for which rules may be proposed."""
    asking = {
        rule.name: (place, rule)
        for place, rule in enumerate(listed.rules)
        if rule.then is Then.ASK and rule.enabled and not rule.shadow and rule.risk is not Risk.CRITICAL
    }
    if not asking or len(listed.rules) >= MAX_RULES:
        return []
    decided = _DECIDED(tenant=tenant_id, days=DAYS, size=MAX_SIZE, most=MAX_DECIDED)
    days = DAYS
    if len(decided) == MAX_DECIDED:
        days = min(DAYS, max(1, ceil((datetime.now(UTC) - decided[-1].closed_at) / timedelta(days=1))))
    tools = {tool.id: tool for tool in offered}
    differed = {one.rule for one in decided if one.preview_differed}
    groups: dict[tuple[str, int, int], list[_Decided]] = defaultdict(list)
    for one in decided:
        if one.rule in asking and one.rule not in differed and one.tool_id in tools and not one.withdrawn:
            groups[(one.rule, one.context_id, one.tool_id)].append(one)
    rules = Rules(listed)
    found = []
    for (name, _, tool_id), rows in groups.items():
        made = _proposal(rules, *asking[name], tools[tool_id], rows, days)
        if made is not None:
            found.append(made)
    found = _undismissed(tenant_id, found)
    return sorted(found, key=lambda one: (-one.approved, one.subject))


def dismiss(tenant_id: int, proposal: Proposal, *, actor: Actor) -> None:
    """Store that people do not want the proposal, and how many approvals it has now."""
    _DISMISS(
        tenant=tenant_id,
        rule=proposal.asking,
        context=proposal.context_id,
        tool=proposal.tool_id,
        approved=proposal.approved,
        dismissed_by=actor.name,
    )
    record_event(
        "rules.proposal.dismissed",
        tenant_id=tenant_id,
        target="rules",
        actor=actor,
        after={
            "rule": proposal.asking,
            "client": proposal.client,
            "tool": proposal.tool,
            "when": proposal.rule.when,
            "approved": proposal.approved,
        },
    )


def _undismissed(tenant_id: int, found: Sequence[Proposal]) -> list[Proposal]:
    if not found:
        return []
    rows = _DISMISSED(
        tenant=tenant_id,
        contexts=sorted({one.context_id for one in found}),
        tools=sorted({one.tool_id for one in found}),
    )
    before = {(row.rule, row.context_id, row.tool_id): row.approved for row in rows}
    return [one for one in found if one.approved >= 2 * before.get(one.subject, 0)]


def _proposal(
    rules: Rules, place: int, asking: Rule, tool: ToolRecord, rows: Sequence[_Decided], days: int
) -> Proposal | None:
    """The proposal for one client's calls of one tool, about which the rule `asking` asks; `None` if there is none.
    `rows`: the closed approvals of these calls."""
    as_now = (asking.group, asking.quorum, asking.risk, asking.second_factor, tool.digest)
    good = [
        one
        for one in rows
        if one.approved
        and one.arguments is not None
        and (one.group, one.quorum, one.risk, one.second_factor, one.definition) == as_now
    ]
    bad = [one for one in rows if not one.approved]
    if len(good) < MIN_APPROVED or any(one.arguments is None for one in bad):
        return None
    schema = tool.definition.get("inputSchema")
    names = _names(schema, good)
    alike = good if not bad else _apart(schema, names, good, bad)
    conditions = _conditions(schema, names, alike) if len(alike) >= MIN_APPROVED else None
    if conditions is None:
        return None
    client = alike[0].client
    when = " && ".join([of_client(client), of_tool(tool.server_name, tool.name), *conditions.written])
    try:
        expression = compiled(when)
        check_kinds(when)
    except Invalid:
        return None
    # Counted are the calls that the expression would let run, not those from which it was made.
    meets = _Meets(expression, tool)
    met = [one for one in good if meets(one)]
    if len(met) < MIN_APPROVED or any(map(meets, bad)):
        return None
    if not all(_asks(rules, asking, tool, one) for one in met[:MIN_APPROVED]):
        return None
    name = _name(f"{client.name}: {tool.name}", {one.name for one in rules.listed.rules})
    return Proposal(
        asking=asking.name,
        place=place,
        rule=Rule(name=name, when=when, then=Then.ALLOW),
        context_id=client.context_id,
        client=client.name,
        tool_id=tool.id,
        tool=tool.name,
        values=conditions.values,
        free=conditions.free,
        approved=len(met),
        days=days,
        average=sum((one.closed_at - one.opened_at for one in met), timedelta()) / len(met),
    )


class _Meets:
    """Whether calls of one client meet the expression, computed once for all calls that agree in the arguments that the
    expression uses."""

    def __init__(self, expression: Expression, tool: ToolRecord) -> None:
        self._expression, self._tool = expression, tool
        self._known: dict[bytes, bool] = {}

    def __call__(self, one: _Decided) -> bool:
        given = one.arguments or {}
        spoken = self._expression.arguments
        key = jsonx.canonical({name: given[name] for name in given if spoken is None or name in spoken})
        if key not in self._known:
            values = call_values(
                [self._expression], one.client, self._tool, given, program=one.program, now=one.created_at
            )
            self._known[key] = self._expression.met(values) is True
        return self._known[key]


def _asks(rules: Rules, asking: Rule, tool: ToolRecord, one: _Decided) -> bool:
    """Whether the rule `asking` would ask about the call today."""
    verdict = rules.decide(one.client, tool, one.arguments or {}, program=one.program, now=one.created_at)
    return verdict.then is Then.ASK and verdict.rule == asking


def _names(schema: Any, rows: Sequence[_Decided]) -> list[str]:
    """The names of all arguments that the tool's schema lists or the calls had."""
    return sorted({*listed_in(schema), *(name for one in rows for name in one.arguments or {})})


def _value(schema: Any, name: str, one: _Decided) -> Any:
    of_schema = schema_of(schema, name)
    default = of_schema.get("default", MISSING) if isinstance(of_schema, dict) else MISSING
    return (one.arguments or {}).get(name, default)


def _key(value: Any) -> bytes:
    return b"" if value is MISSING else jsonx.canonical(value)


def _apart(schema: Any, names: Sequence[str], good: Sequence[_Decided], bad: Sequence[_Decided]) -> Sequence[_Decided]:
    """The largest group of approved calls that have the same value of some argument, a value that no unapproved call
    had."""
    best: Sequence[_Decided] = ()
    for name in names:
        against = {_key(_value(schema, name, one)) for one in bad}
        by_value: dict[bytes, list[_Decided]] = defaultdict(list)
        for one in good:
            by_value[_key(_value(schema, name, one))].append(one)
        for key, rows in by_value.items():
            if key not in against and len(rows) > len(best):
                best = rows
    return best


class _Conditions(NamedTuple):
    written: list[str]
    values: tuple[tuple[str, tuple[Any, ...]], ...]
    free: tuple[str, ...]


def _conditions(schema: Any, names: Sequence[str], rows: Sequence[_Decided]) -> _Conditions | None:
    """Conditions that all these calls meet; `None` if no argument has at most `MAX_VALUES` values, if such a value
    cannot be named, or if there would be too many conditions. If an argument had more than `MAX_VALUES` values, the
    condition names the least and the greatest number, or leaves the argument free. An argument that neither the schema
    lists nor a call had is excluded, like a value that no call had."""
    written: list[str] = []
    values: list[tuple[str, tuple[Any, ...]]] = []
    free: list[str] = []
    for name in names:
        found: Mapping[bytes, Any] = {_key(value): value for value in (_value(schema, name, one) for one in rows)}
        given = tuple(value for value in found.values() if value is not MISSING)
        if len(found) > MAX_VALUES:
            free.append(name)
            if len(given) == len(found) and all(_is_number(value) for value in given):
                written.append(of_argument(name, Comparison.BETWEEN, (min(given), max(given))))
            continue
        if not all(_can_be_named(value) for value in given):
            return None
        if given:
            same = of_argument(name, Comparison.ONE_OF, given)
            values.append((name, given))
        absent = of_argument(name, Comparison.ABSENT)
        if len(given) == len(found):
            written.append(same)
        else:
            written.append(f"({absent} || {same})" if given else absent)
    if len(written) > MAX_CONDITIONS or (names and not values):
        return None
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        written.append(of_no_others(names))
    return _Conditions(written, tuple(values), tuple(free))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _can_be_named(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= MAX_VALUE)


def _name(wanted: str, taken: set[str]) -> str:
    """A name for the rule that is not in `taken`."""
    plain = "".join(sign for sign in wanted if sign.isprintable())[: MAX_NAME - 4].strip() or "Proposal"
    if plain not in taken:
        return plain
    return next(name for n in range(2, MAX_RULES + 3) if (name := f"{plain} {n}") not in taken)
