"""Finds rules that are in doubt for every call of some tools, because these tools lack the arguments that the rules
use; and rules that name something that no tool has.

The first follows from what doubt means (`expressions`), but a rule's writer seldom meant it: a rule that asks if
`args.environment == "production"` asks about each call of every tool that has no such argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from taskhub.core.records import ToolRecord
from taskhub.core.rules import EVERY_ARGUMENT, Rule, Then, storable
from taskhub.domain.rules.conditions import MISSING, schema_of
from taskhub.domain.rules.decisions import only_reads, tool_values
from taskhub.domain.rules.expressions import Values, absent_values, compiled
from taskhub.domain.rules.sentences import NOT_GIVEN, may_have, places
from taskhub.domain.rules.written import Comparison, literal, of_argument

MAX_TOOLS: Final = 5_000
"""The most tools that are looked at: the first in the catalogue."""
_NAMED: Final = 5
"""The most tools that a fix names."""
_DONE: Final = {Then.ASK: "asked about", Then.DENY: "denied"}


@dataclass(frozen=True, slots=True)
class Lack:
    """A rule that asks about or denies every call of `lacking` of the `looked_at` tools, because these tools do not
    list some of the `arguments`. `fitting` are the names of the tools that the rule may match and that list all of its
    arguments."""

    rule: Rule
    looked_at: int
    lacking: int
    arguments: frozenset[str]
    fitting: tuple[str, ...]

    @property
    def words(self) -> str:
        """The problem, and the likely fix."""
        names = " or ".join(sorted(self.arguments))
        of = f"{self.lacking:,} of the {self.looked_at:,} tools have"
        if self.lacking == self.looked_at:
            of = "The only tool has" if self.lacking == 1 else f"All {self.looked_at:,} tools have"
        return f"{of} no argument {names}: every call of them is in doubt, and so {_DONE[self.rule.then]}. {self.fix}."

    @property
    def fix(self) -> str:
        """What the rule could say instead, without a full stop."""
        names = [literal(name) for name in dict.fromkeys(self.fitting) if storable(name)]
        if not names:
            return "No tool has it: look at how it is spelled"
        if len(names) == 1:
            return f"Name the tool: tool.name == {names[0]} && (…)"
        if len(names) <= _NAMED:
            return f"Name the tools: tool.name in [{', '.join(names)}] && (…)"
        there = " && ".join(of_argument(name, Comparison.PRESENT) for name in sorted(self.arguments) if storable(name))
        return f"Name the tools, or take only calls that have it: {there} && (…)"


class Part(StrEnum):
    """The parts of a rule that asks which name a tool or an argument."""

    SENTENCE = "sentence"
    EDITABLE = "editable"
    PREVIEW_TOOL = "preview tool"
    PREVIEW_ARGUMENT = "preview argument"


@dataclass(frozen=True, slots=True)
class Misfit:
    """A rule that asks, and a name in it that fits none of the tools that the rule may match. `name` is the name of a
    tool or of an argument; for a member of an argument, the names are joined by dots."""

    rule: Rule
    part: Part
    name: str

    @property
    def words(self) -> str:
        """The problem, and what follows from it."""
        match self.part:
            case Part.SENTENCE:
                return (
                    f"The sentence has a place for {{args.{self.name}}}, but no tool that this rule can match has it:"
                    f" people would read {NOT_GIVEN}."
                )
            case Part.EDITABLE:
                return f"No tool that this rule can match has an argument {self.name}: nobody could edit it."
            case Part.PREVIEW_TOOL:
                return (
                    f"No tool that this rule can match has a neighbour {self.name} on its server that says that it only"
                    " reads: people would be asked without a preview."
                )
            case Part.PREVIEW_ARGUMENT:
                return (
                    f"No tool that this rule can match has the argument {self.name} of the preview: people would be"
                    " asked without one."
                )


def misfits(rules: Sequence[Rule], tools: Sequence[ToolRecord]) -> list[Misfit]:
    """The names in places of sentences, in arguments to edit and in previews that fit no tool which the rule may match.
    Rules on trial or off count too; rules that can match no tool at all do not. Raises `Invalid` for an expression that
    cannot be compiled, or a sentence that cannot be read."""
    told = [(rule, compiled(rule.when), _named(rule)) for rule in rules if rule.then is Then.ASK]
    told = [one for one in told if one[2]]
    left = [dict.fromkeys(named) for _, _, named in told]
    matched = [False] * len(told)
    looked_at = tools[:MAX_TOOLS] if told else ()
    readers = {(tool.server_id, tool.name) for tool in looked_at if only_reads(tool)}
    for tool in looked_at:
        schema = tool.definition.get("inputSchema")
        values = Values(tool_values(tool))
        for n, (_, when, _) in enumerate(told):
            if (left[n] or not matched[n]) and when.met(values) is not False:
                matched[n] = True
                for part, path in list(left[n]):
                    beside = part is Part.PREVIEW_TOOL
                    if (tool.server_id, path[0]) in readers if beside else may_have(path, schema):
                        del left[n][part, path]
    return [
        Misfit(rule, part, ".".join(path))
        for (rule, _, _), lost, any_tool in zip(told, left, matched, strict=True)
        for part, path in (lost if any_tool else ())
    ]


def _named(rule: Rule) -> list[tuple[Part, tuple[str, ...]]]:
    named = [(Part.SENTENCE, path) for path in places(rule.sentence)]
    named += [(Part.EDITABLE, (name,)) for name in rule.editable if name != EVERY_ARGUMENT]
    if rule.preview is not None and rule.preview.tool:
        named.append((Part.PREVIEW_TOOL, (rule.preview.tool,)))
    elif rule.preview is not None:
        named += [(Part.PREVIEW_ARGUMENT, (name,)) for name in rule.preview.to_json()["arguments"]]
    return named


def lacks(rules: Sequence[Rule], tools: Sequence[ToolRecord]) -> list[Lack]:
    """The rules of the list, also rules on trial or off, that are in doubt for every call of some tools, because these
    lack an argument. Raises `Invalid` for an expression that cannot be compiled."""
    looked_at = tools[:MAX_TOOLS]
    every = [(rule, compiled(rule.when)) for rule in rules]
    compared = [(rule, when) for rule, when in every if rule.then in _DONE and when.compared]
    lacking: list[list[frozenset[str]]] = [[] for _ in compared]
    fitting: list[list[str]] = [[] for _ in compared]
    spoken = frozenset[str]().union(*(when.compared for _, when in compared))
    for tool in looked_at if compared else ():
        schema = tool.definition.get("inputSchema")
        absent = {name for name in spoken if schema_of(schema, name) is MISSING}
        # Client, time and the other arguments are unknown: an expression that is false now is false for every call of
        # the tool.
        values = Values(tool_values(tool) | absent_values(absent))
        for place, (_, when) in enumerate(compared):
            if when.met(values) is not None:
                continue
            if missing := when.compared & absent:
                lacking[place].append(missing)
            else:
                fitting[place].append(tool.name)
    return [
        Lack(rule, len(looked_at), len(missing), frozenset[str]().union(*missing), tuple(found))
        for (rule, _), missing, found in zip(compared, lacking, fitting, strict=True)
        if missing
    ]
