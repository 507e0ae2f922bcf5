"""Which arguments may be the reason that the rule which asked about a call is in doubt."""

from __future__ import annotations

from typing import Any

from taskhub.core.errors import Invalid
from taskhub.domain.questions.inbox import InboxItem
from taskhub.domain.rules.expressions import compiled
from taskhub.domain.rules.reads import version


def doubted(tenant_id: int, item: InboxItem) -> dict[str, Any]:
    """The template context of an approval whose rule is in doubt. `doubted` are the arguments that the rule compares
    and that the call lacks or has as null; if there are none, `compared` are all arguments that the rule compares.
    Empty for any other question, and if the rule is not in the version that the question names."""
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
        return {}  # the version is older, and its expression cannot be read any more
    missing = [name for name in compared if item.runs_with.get(name) is None]
    return {"doubted": missing, "compared": [] if missing else compared}
