"""The rules that block a tool for a client for a time: which rules they are, and their end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.core.rules import Rule, Then
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.store import statements

BLOCKED: Final = "People have blocked this tool for you until "
"""The beginning of the words of a block, which the agent reads."""
_OVER: Final = "The time of its blocks is over"
_UNTIL: Final = re.compile(r'.* && time < timestamp\("(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"\)', re.DOTALL)
_TENANTS = statements.many("tenants_with_blocks", int)


def until_words(until: datetime) -> str:
    """The words of a block that ends at `until`, which the agent reads."""
    return f"{BLOCKED}{until:%Y-%m-%d %H:%M} UTC."


def blocked_until(rule: Rule) -> datetime | None:
    """Until when this rule blocks a tool for a client; `None` if the rule is no block, or is one that people have
    changed into another rule."""
    found = _UNTIL.fullmatch(rule.when) if rule.then is Then.DENY else None
    if found is None:
        return None
    until = datetime.fromisoformat(found[1])
    return until if rule.words == until_words(until) else None


def in_force(rules: Sequence[Rule], now: datetime) -> tuple[Rule, ...]:
    """The blocks of the list whose time is not over."""
    return tuple(rule for rule in rules if (until := blocked_until(rule)) is not None and until > now)


def without(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The list without its blocks."""
    return tuple(rule for rule in rules if blocked_until(rule) is None)


def without_ended(rules: Sequence[Rule], now: datetime) -> tuple[Rule, ...]:
    """The list without blocks whose time is over."""
    return tuple(rule for rule in rules if (until := blocked_until(rule)) is None or until > now)


def remove_ended(actor: Actor) -> int:
    """Remove blocks whose time is over from the rules of all tenants; they match nothing any more. Returns from how
    many lists. If somebody saves a tenant's rules at the same moment, that tenant's blocks stay until the next time."""
    changed, now = 0, datetime.now(UTC)
    for tenant_id in _TENANTS(words=BLOCKED):
        listed = present(tenant_id)
        kept = without_ended(listed.rules, now)
        if kept != listed.rules:
            with suppress(Refused):
                save_rules(tenant_id, kept, expected=listed.version, reason=_OVER, actor=actor)
                changed += 1
    return changed
