"""Proposes rules that let calls run about which people were asked often and always agreed: never for calls of a rule
whose risk is critical, or whose preview has differed. Nothing is saved here but that a proposal was dismissed."""

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
"""Days back from now whose approvals count."""
MAX_DECIDED: Final = 1_000
"""Approvals of a tenant that are looked at: those that were closed last."""
MIN_APPROVED: Final = 20
"""Approvals, and nothing else, that a proposal needs."""
MAX_SIZE: Final = 4_000
"""Most bytes of a call's arguments, as they are stored. Calls with larger ones are in no proposal."""
MAX_VALUES: Final = 3
"""Most values of an argument that a proposed condition names."""
MAX_VALUE: Final = 200
"""Most characters of a text among them."""
MAX_CONDITIONS: Final = 20
"""Most arguments that a proposed expression speaks of. Of a tool with more nothing is proposed."""


class _Decided(NamedTuple):
    """An approval that was closed. `approved`: by people, who changed nothing. `withdrawn`: closed without anybody's
    word, such as by a cancellation. `arguments` is `None` where they are too large."""

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
    """A rule that could stand right before the one that asks. `asking` is the name of that, `place` its index.
    `values`: what the condition names of each argument, of which every call had one. `free`: the arguments that it
    leaves open. All of the `approved` calls were approved, in `average`, within the last `days`."""

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
        """What it is about. There is one proposal of each, and it is dismissed as such."""
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
    """What could be let run without asking, by the approvals of the last days: those with the most approvals first. One
    that was dismissed is left out until it has twice as many as then."""
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
    """Note that nobody wants it, with as many approvals as it has now."""
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
    """What could be let run of one client's calls of a tool that the rule asks about."""
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
    # What it would let run is what counts, and not what it was made of.
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
    """Whether calls of one client meet the expression, computed once for each set of the arguments of which it
    speaks."""

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
    """Whether that rule would ask about the call today."""
    verdict = rules.decide(one.client, tool, one.arguments or {}, program=one.program, now=one.created_at)
    return verdict.then is Then.ASK and verdict.rule == asking


def _names(schema: Any, rows: Sequence[_Decided]) -> list[str]:
    """The arguments that the tool takes or was given."""
    return sorted({*listed_in(schema), *(name for one in rows for name in one.arguments or {})})


def _value(schema: Any, name: str, one: _Decided) -> Any:
    of_schema = schema_of(schema, name)
    default = of_schema.get("default", MISSING) if isinstance(of_schema, dict) else MISSING
    return (one.arguments or {}).get(name, default)


def _key(value: Any) -> bytes:
    return b"" if value is MISSING else jsonx.canonical(value)


def _apart(schema: Any, names: Sequence[str], good: Sequence[_Decided], bad: Sequence[_Decided]) -> Sequence[_Decided]:
    """The most approvals that have the same value of an argument, which no call has that was not approved."""
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
    """What the calls have in common; `None` if nothing of their arguments stayed the same, or that cannot be said. Of
    an argument with more values than can be named only what numbers lie between is said. An argument that the schema
    lists nowhere, and no call had, is as new as a value that no call had."""
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
    """A name for the rule that no other has."""
    plain = "".join(sign for sign in wanted if sign.isprintable())[: MAX_NAME - 4].strip() or "Proposal"
    if plain not in taken:
        return plain
    return next(name for n in range(2, MAX_RULES + 3) if (name := f"{plain} {n}") not in taken)
