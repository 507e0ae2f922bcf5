"""Which arguments may be the reason that the rule which asked about a call is in doubt."""

from __future__ import annotations

from typing import Any

from taskhub.core.errors import Invalid
from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.rules.expressions import compiled
from taskhub.domain.rules.reads import version


def doubted(tenant_id: int, item: InboxItem) -> dict[str, Any]:
    """The template context of an approval whose rule is in doubt: `doubted`, the arguments that the rule compares and
    that the call does not have or has as null; where there are none, `compared`, all that the rule compares. Empty for
    any other question, and if that version does not have the rule."""
    decided = item.params.get("decided")
    if not isinstance(decided, dict) or not decided.get("doubt"):
        return {}
    listed = version(tenant_id, decided["version"])
    rule = next((rule for rule in listed.rules if rule.name == decided["rule"]), None) if listed else None
    if rule is None:
        return {}
    try:
        compared = sorted(compiled(rule.when).compared)
    except Invalid:
        return {}  # of a version whose expressions are read differently now
    missing = [name for name in compared if item.runs_with.get(name) is None]
    return {"doubted": missing, "compared": [] if missing else compared}
