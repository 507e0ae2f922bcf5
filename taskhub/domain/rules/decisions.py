"""Decides calls and visibility by a tenant's rules: the first rule that matches decides.

A rule that is in doubt (`expressions`) matches if it hides, denies or asks, and does not match if it allows.

The event loop of a web process decides in steps, one for each expression, so that it can do something else between two
steps (`protocol.rule_time`): `deciding` and the other functions that return `Steps` are generators, which yield after
each step.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from taskhub.core.errors import Invalid
from taskhub.core.records import ToolRecord
from taskhub.core.rules import NOBODY, Client, Risk, Rule, RuleList, SignedIn, Then, Verdict
from taskhub.domain.rules.conditions import MISSING, alone, listed_in, may_be_json, schema_of
from taskhub.domain.rules.expressions import Expression, Values, absent_values, argument_values, compiled
from taskhub.domain.rules.kinds import check_kinds
from taskhub.lib import jsonx
from taskhub.lib.schemas import surely_fits

MAX_ARGUMENT: Final = 20_000
"""The most bytes of an argument as JSON. Expressions that use a larger argument are in doubt."""
MAX_ITEMS: Final = 100
"""The most items of an array or object, and most levels of both, in an argument. Expressions that use an argument with
more are in doubt."""
_KEPT: Final = 10_000
"""The most entries of two caches: of `may_match`, by client and tool, and of `concerning`, by tool."""


T = TypeVar("T")
Steps = Generator[Values, None, T]
"""A decision that is made in steps. Between two of them the clock of the values that it yields may be paused."""


def at_once(steps: Steps[T]) -> T:
    """The result of the steps, which are run one after the other without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its compiled expression."""

    rule: Rule
    when: Expression

    def matches(self, met: bool | None) -> bool:
        """Whether the rule matches a call. `met`: whether its expression is true for the call; `None` if that is in
        doubt."""
        return met is True or (met is None and self.rule.then is not Then.ALLOW)


def check_expressions(rules: Sequence[Rule]) -> None:
    """Raise `Invalid` for an expression that cannot be compiled, and for one that can be neither true nor false
    (`check_kinds`). Also for a rule that hides, if its expression uses something that is not known when tools are
    listed: arguments, time or the client's program. The error's `field` is `rules.N.when`, where N counts from 0."""
    for place, rule in enumerate(rules):
        try:
            when = compiled(rule.when)
            check_kinds(rule.when)
        except Invalid as error:
            raise Invalid(error.message, field=f"rules.{place}.when") from None
        if rule.then is Then.HIDE and not (when.lasting and not when.of_program):
            raise Invalid(
                "A rule that hides tools cannot speak of args, time or client.program: they are not known, or change, "
                "when tools are listed.",
                field=f"rules.{place}.when",
            )


class Rules:
    """The rules of one tenant in one version, compiled. Its caches have no lock: a lost entry is computed again."""

    def __init__(self, listed: RuleList) -> None:
        """Raises `Invalid` if an expression cannot be compiled. Every stored expression can be."""
        self.listed = listed
        self.version = listed.version
        self.rules = [CompiledRule(rule, compiled(rule.when)) for rule in listed.rules if rule.enabled]
        """The rules that are not off."""
        self.hide = listed.hides
        """Whether a tool may be hidden from a client."""
        self.of_person = any(one.when.of_person for one in self.rules)
        """Whether a rule uses the person who signed in the client."""
        self._left: dict[tuple[Any, ...], Sequence[CompiledRule]] = {}
        self._of_tool: dict[tuple[Any, ...], Sequence[CompiledRule]] = {}

    def decide(
        self, client: Client, tool: ToolRecord, arguments: Mapping[str, Any], *, program: str, now: datetime
    ) -> Verdict:
        """The verdict on a call. `program`: the name that the client's program gives itself; empty if it gives none. A
        call of a hidden tool is denied."""
        return at_once(self.deciding(client, tool, arguments, program=program, now=now))

    def deciding(
        self, client: Client, tool: ToolRecord, arguments: Mapping[str, Any], *, program: str, now: datetime
    ) -> Steps[Verdict]:
        """`decide`, in steps."""
        if not self.rules:
            return Verdict(Then.ALLOW, version=self.version)
        person = client.person if self.of_person else NOBODY
        if self.hide and (hidden := (yield from self.finding_hidden(client, tool))) is not None:
            return Verdict(Then.DENY, hidden, self.version, scopes=client.scopes, person=person)
        left = yield from self.matching(client, tool, program)
        values: Values | None = None
        shadows: list[str] = []
        for one in left:
            if values is None:
                when = [one.when for one in left]
                values = call_values(when, client, tool, arguments, program=program, now=now)
            met = one.when.met(values)
            yield values
            if not one.matches(met):
                continue
            if one.rule.shadow:
                shadows.append(one.rule.name)
                continue
            then = Then.DENY if one.rule.then is Then.HIDE else one.rule.then
            return Verdict(then, one.rule, self.version, met is None, tuple(shadows), client.scopes, person)
        return Verdict(Then.ALLOW, None, self.version, shadows=tuple(shadows), scopes=client.scopes, person=person)

    def let_pass(self, verdict: Verdict, tool: ToolRecord) -> Verdict:
        """The verdict under the bypass that is in force: a call about which the rule would ask is allowed, unless the
        rule calls it critical."""
        bypass, rule = self.listed.bypass, verdict.rule
        if verdict.then is not Then.ASK or rule is None or rule.risk is Risk.CRITICAL:
            return verdict
        if bypass is None or not bypass.counts_for(tool.server_id):
            return verdict
        return replace(verdict, then=Then.ALLOW, bypass=bypass)

    def hides(self, client: Client, tool: ToolRecord) -> bool:
        """Whether the tool is hidden from the client. Only rules that depend on nothing but client, person, server and
        tool, and are not on trial, count: the first of them that matches says whether the tool is hidden."""
        return self.hidden_by(client, tool) is not None

    def hidden_by(self, client: Client, tool: ToolRecord) -> Rule | None:
        """The rule that hides the tool from the client; `None` if no rule does."""
        return at_once(self.finding_hidden(client, tool))

    def finding_hidden(self, client: Client, tool: ToolRecord) -> Steps[Rule | None]:
        """`hidden_by`, in steps."""
        if not self.hide:
            return None
        for one in (yield from self.matching(client, tool, "")):
            if one.when.lasting and not one.rule.shadow:
                return one.rule if one.rule.then is Then.HIDE else None
        return None

    def hides_server(self, client: Client, server: str) -> bool:
        """Whether the prompts and resources of this server are hidden from the client. Rules whose outcome depends on
        the tool do not count."""
        return at_once(self.hiding_server(client, server))

    def hiding_server(self, client: Client, server: str) -> Steps[bool]:
        """`hides_server`, in steps."""
        values = Values({"client": _client(client, ""), "person": _person(client.person), "server": {"name": server}})
        for one in self.rules:
            if not one.when.lasting or one.rule.shadow:
                continue
            met = one.when.met(values)
            yield values
            if met is True or (not one.when.of_tool and one.matches(met)):
                return one.rule.then is Then.HIDE
        return False

    def may_match(self, client: Client, tool: ToolRecord, program: str) -> Sequence[CompiledRule]:
        """The rules that may match a call of the tool by the client, in order, up to the first that certainly matches.

        An expression that uses only client, person, server and tool is evaluated once, and cached. A rule whose
        expression also uses arguments or time is left out if the expression is false whatever these are.
        """
        return at_once(self.matching(client, tool, program))

    def matching(self, client: Client, tool: ToolRecord, program: str) -> Steps[Sequence[CompiledRule]]:
        """`may_match`, in steps."""
        key = (client, tool.id, tool.digest, tool.server_name, program)
        found = self._left.get(key)
        if found is None:
            concerning = yield from self.concerning(tool)
            values = Values(lasting_values(client, tool, program))
            left = []
            for one in concerning:
                met = one.when.met(values)
                yield values
                if one.when.lasting and not one.matches(met):
                    continue
                if met is False:
                    continue
                left.append(one)
                if one.when.lasting and not one.rule.shadow:
                    break
            found = tuple(left)
            if len(self._left) >= _KEPT:
                self._left.clear()
            self._left[key] = found
        return found

    def concerning(self, tool: ToolRecord) -> Steps[Sequence[CompiledRule]]:
        """The rules that may match a call of the tool, whoever makes it, in order. Rules are left out whose expression
        is false by server and tool alone, such as rules that name another tool."""
        key = (tool.id, tool.digest, tool.server_name, tool.name)
        found = self._of_tool.get(key)
        if found is None:
            # An expression that is false here is false for every call of the tool. As in CEL, an unknown variable is an
            # error; and an expression that is true or false in spite of an error has the same result for every value of
            # the variable.
            values = Values(tool_values(tool))
            left = []
            for one in self.rules:
                if one.when.met(values) is not False:
                    left.append(one)
                yield values
            found = tuple(left)
            if len(self._of_tool) >= _KEPT:
                self._of_tool.clear()
            self._of_tool[key] = found
        return found


def denied(verdict: Verdict) -> str:
    """What the client of a denied call is told, as text for the model."""
    return f"Not called: {denied_why(verdict)}"


def denied_why(verdict: Verdict) -> str:
    """Why a call is denied, as text for the model."""
    words = verdict.rule.words if verdict.rule is not None else ""
    return words or "a rule of this hub denies this call."


def _client(client: Client, program: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": client.client_id,
        "name": client.name,
        "issuer": client.issuer,
        "subject": client.subject,
    }
    if program is not None:
        values["program"] = program
    if client.scopes is not None:
        values["scopes"] = sorted(client.scopes)
    return values


def _person(person: SignedIn) -> dict[str, Any]:
    return {"name": person.name, "role": person.role, "groups": list(person.groups)}


def lasting_values(client: Client, tool: ToolRecord, program: str | None) -> dict[str, Any]:
    """The variables that are the same for all calls of the tool by the client. `client.program` is left out if
    `program` is `None`."""
    return {"client": _client(client, program), "person": _person(client.person), **tool_values(tool)}


def only_reads(tool: ToolRecord) -> bool:
    """Whether the tool says that it only reads: its annotation `readOnlyHint` is true."""
    annotations = tool.definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def tool_values(tool: ToolRecord) -> dict[str, Any]:
    """The variables `server` and `tool`, which are the same for all calls of the tool."""
    annotations = tool.definition.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}

    def hint(name: str, default: bool) -> bool:
        # The default that MCP gives the annotation.
        return hints[name] if isinstance(hints.get(name), bool) else default

    read_only = only_reads(tool)
    title = tool.definition.get("title", hints.get("title"))
    return {
        "server": {"name": tool.server_name},
        "tool": {
            "name": tool.name,
            "title": title if isinstance(title, str) else "",
            "annotations": hints,
            "readOnly": read_only,
            "destructive": not read_only and hint("destructiveHint", True),
            "idempotent": hint("idempotentHint", False),
            "openWorld": hint("openWorldHint", True),
        },
    }


def call_values(
    expressions: Sequence[Expression],
    client: Client,
    tool: ToolRecord,
    arguments: Mapping[str, Any],
    *,
    program: str,
    now: datetime,
) -> Values:
    """The variables for these expressions in a call: `lasting_values`, the time, and the arguments that the expressions
    use. Missing arguments have the defaults of the tool's schema, and all are checked against the schema."""
    schema = tool.definition.get("inputSchema")
    names: set[str] = set()
    for when in expressions:
        names |= when.named
        if when.arguments is None:
            names |= arguments.keys() | listed_in(schema)
    found: dict[str, Any] = {}
    unfit: set[str] = set()
    for name in names:
        rule = schema_of(schema, name)
        value = arguments.get(name, rule.get("default", MISSING) if isinstance(rule, dict) else MISSING)
        if value is MISSING:
            continue
        found[name] = value
        parsed = isinstance(value, str) and may_be_json(value) and not _is_text(rule)
        if parsed or not _small(value) or (rule is not MISSING and not surely_fits(alone(schema, rule), value)):
            unfit.add(name)
    values = argument_values(found, unfit) | absent_values(names - found.keys())
    return Values(lasting_values(client, tool, program) | values | {"time": now})


def _is_text(rule: Any) -> bool:
    return isinstance(rule, dict) and rule.get("type") == "string"


def _small(value: Any) -> bool:
    try:
        return len(jsonx.encode(value)) <= MAX_ARGUMENT and _flat(value, 0)
    except (ValueError, TypeError, RecursionError):
        return False


def _flat(value: Any, depth: int) -> bool:
    if not isinstance(value, (list, dict)):
        return True
    inside = value.values() if isinstance(value, dict) else value
    return len(value) <= MAX_ITEMS and depth < MAX_ITEMS and all(_flat(one, depth + 1) for one in inside)
