"""Finds names of tools from which clients can guess that there are hidden tools: the names were given before a rule hid
these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskhub.core.records import ToolRecord
from taskhub.core.rules import Rule, Then
from taskhub.domain.rules.decisions import tool_values
from taskhub.domain.rules.expressions import Values, compiled
from taskhub.domain.rules.lacking import MAX_TOOLS

_NAMED: Final = 5
"""The most names, and most servers, in a warning."""


@dataclass(frozen=True, slots=True)
class Telling:
    """A rule that hides `number` tools of which clients can guess that they exist: another server has a tool of the
    same name, which clients see as `SERVER__name`, because the hidden tool has the short name. `pairs`: the names of
    the hidden tool and of the other one. `servers`: the servers of the other tools. Both have only the first few."""

    rule: Rule
    number: int
    pairs: tuple[tuple[str, str], ...]
    servers: tuple[str, ...]

    @property
    def words(self) -> str:
        """The problem, and what can be done."""
        named = ", ".join(f"{hidden} by {shown}" for hidden, shown in self.pairs)
        more = f" and {self.number - len(self.pairs):,} more" if self.number > len(self.pairs) else ""
        one = len(self.servers) == 1
        return (
            f"Clients may guess by the name of a tool that there is another, which is hidden from them: {named}{more}."
            f" Names stay; if the {'server' if one else 'servers'} {', '.join(self.servers)} {'is' if one else 'are'}"
            " removed and added again while the rule is in force, the new names do not tell."
        )


def telling(rules: Sequence[Rule], tools: Sequence[ToolRecord]) -> list[Telling]:
    """The rules of the list, also rules on trial or off, that may hide a tool which the name of another tool gives
    away, while they never hide that other tool. Raises `Invalid` for an expression that cannot be compiled."""
    looked_at = tools[:MAX_TOOLS]
    holders = {tool.exposed_name: tool for tool in looked_at}
    made = [
        (holders[tool.name], tool)
        for tool in looked_at
        if tool.exposed_name != tool.name and holders.get(tool.name, tool).server_id != tool.server_id
    ]
    found = []
    for rule in rules if made else ():
        if rule.then is not Then.HIDE:
            continue
        when = compiled(rule.when)
        pairs = [
            (holder.exposed_name, tool)
            for holder, tool in made
            if when.met(Values(tool_values(holder))) is not False and when.met(Values(tool_values(tool))) is False
        ]
        if pairs:
            named = tuple((hidden, tool.exposed_name) for hidden, tool in pairs[:_NAMED])
            servers = tuple(dict.fromkeys(tool.server_name for _, tool in pairs))
            found.append(Telling(rule, len(pairs), named, servers[:_NAMED]))
    return found
