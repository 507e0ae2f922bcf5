"""Reads a tenant's rules: the list in force, and all its versions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from taskhub.core.bypass import Bypass
from taskhub.core.rules import Rule, RuleList, list_from_json
from taskhub.store import statements

PAGE_ROWS: Final = 50
"""The most versions on a page of the history."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version of a tenant's rules, as a list of versions shows it."""

    number: int
    digest: str
    made_at: datetime
    made_by: str
    reason: str
    size: int
    """How many rules the version has."""


@dataclass(frozen=True, slots=True)
class Version(VersionRow):
    """A version of a tenant's rules, with the rules."""

    rules: tuple[Rule, ...]


def _stored(value: Any) -> tuple[Rule, ...]:
    return list_from_json(statements.from_json(value))


def _bypass(value: Any) -> Bypass:
    found = statements.from_json(value)
    times = {name: datetime.fromisoformat(found[name]) for name in ("began_at", "ends_at")}
    return Bypass(**{**found, **times})


_PRESENT = statements.one("present_rules", RuleList, convert={"rules": _stored, "bypass": _bypass})
_VERSIONS = statements.many("rule_versions", VersionRow)
_VERSION = statements.maybe("rule_version", Version, convert={"rules": _stored})


def present(tenant_id: int) -> RuleList:
    """The tenant's rules that are in force, and its bypass."""
    asked = time.monotonic()
    found = _PRESENT(tenant=tenant_id)
    if found.bypass is None:
        return found
    # Counted from before the read, so that the bypass may end a moment too early for this process, but never too late.
    return replace(found, bypass=replace(found.bypass, over_at=asked + found.bypass.over_at))


def versions(tenant_id: int, *, before: int | None = None, most: int = PAGE_ROWS) -> list[VersionRow]:
    """The versions with a number below `before`, or all if it is `None`: at most `most`, newest first."""
    return _VERSIONS(tenant=tenant_id, before=before, most=most)


def version(tenant_id: int, number: int) -> Version | None:
    """The version with this number; `None` if there is none."""
    return _VERSION(tenant=tenant_id, number=number) if 0 < number < 2**31 else None
