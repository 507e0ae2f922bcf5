"""Rules that deny one client's calls of one tool for a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from taskhub.core.rules import MAX_NAME, Client, Rule, Then
from taskhub.domain.rules.blocks import until_words, without_ended
from taskhub.domain.rules.written import of_client, of_tool
from taskhub.store import statements

BLOCK_SECONDS: Final = 3_600
"""For how long a tool is blocked for a client."""
MOST_ALONGSIDE: Final = 100
"""The most waiting calls of the tool and client that are rejected with the block; others are denied before they run."""


@dataclass(frozen=True, slots=True)
class Blockable:
    """What a person can block: a tool for a client. Both have the names by which conditions of rules know them."""

    client: str
    issuer: str
    subject: str
    client_id: str
    server: str
    tool: str


_BLOCKABLE = statements.one("blockable", Blockable)
_ALONGSIDE = statements.many("waiting_alongside", int)


def waiting_alongside(task_id: int) -> tuple[int, ...]:
    """The open approvals of other calls of the task's tool by its client, at most `MOST_ALONGSIDE`."""
    return tuple(_ALONGSIDE(task=task_id, most=MOST_ALONGSIDE))


def blocked_by(task_id: int, rules: Sequence[Rule], now: datetime) -> tuple[Rule, tuple[Rule, ...]]:
    """The rule that denies this client's calls of this tool until `BLOCK_SECONDS` after `now`, and the whole list of
    rules, which begins with that rule. It replaces an earlier block of the same client and tool; blocks that are over
    are left out."""
    call = _BLOCKABLE(task=task_id)
    client = Client(0, call.client, call.issuer, call.subject, call.client_id)
    condition = f"{of_client(client)} && {of_tool(call.server, call.tool)} && time < "
    until = (now + timedelta(seconds=BLOCK_SECONDS)).astimezone(UTC).replace(microsecond=0)
    others = without_ended(rules, now)
    rest = tuple(rule for rule in others if rule.then is not Then.DENY or not rule.when.startswith(condition))
    made = Rule(
        name=_name(f"Blocked: {call.tool} for {call.client}", {rule.name for rule in rest}),
        when=f'{condition}timestamp("{until:%Y-%m-%dT%H:%M:%SZ}")',
        then=Then.DENY,
        words=until_words(until),
    )
    return made, (made, *rest)


def _name(wanted: str, taken: set[str]) -> str:
    clean = "".join(sign for sign in wanted if sign.isprintable())
    for number in range(1, len(taken) + 2):
        end = "" if number == 1 else f" ({number})"
        name = f"{clean[: MAX_NAME - len(end)].strip()}{end}"
        if name not in taken:
            return name
    raise AssertionError(wanted)
