"""Reads a tenant's rules: those in force, and the versions before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.rules import Rule, RuleList, list_from_json
from taskhub.store import statements

PAGE_ROWS: Final = 50
"""Versions on a page of the history."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version of a tenant's rules, in a list of them."""

    number: int
    digest: str
    made_at: datetime
    made_by: str
    reason: str
    size: int
    """How many rules it has."""


@dataclass(frozen=True, slots=True)
class Version(VersionRow):
    """A version of a tenant's rules, with them."""

    rules: tuple[Rule, ...]


def _stored(value: Any) -> tuple[Rule, ...]:
    return list_from_json(statements.from_json(value))


_PRESENT = statements.maybe("present_rules", RuleList, convert={"rules": _stored})
_VERSIONS = statements.many("rule_versions", VersionRow)
_VERSION = statements.maybe("rule_version", Version, convert={"rules": _stored})


def present(tenant_id: int) -> RuleList:
    """The tenant's rules that are in force."""
    return _PRESENT(tenant=tenant_id) or RuleList(version=0, rules=())


def versions(tenant_id: int, *, before: int | None = None, most: int = PAGE_ROWS) -> list[VersionRow]:
    """The versions with a number below `before`, newest first; without it the newest."""
    return _VERSIONS(tenant=tenant_id, before=before, most=most)


def version(tenant_id: int, number: int) -> Version | None:
    """The version with this number; `None` if there is none."""
    return _VERSION(tenant=tenant_id, number=number) if 0 < number < 2**31 else None
