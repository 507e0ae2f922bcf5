"""Saves a tenant's rules: each change is a new version of the whole list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from taskhub.core.errors import Invalid, Refused
from taskhub.core.hints import CatalogueChanged
from taskhub.core.records import Actor
from taskhub.core.rules import MAX_REASON, Rule, RuleList, check_rules, difference, digest_of, encoded, storable
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.domain.rules.decisions import check_expressions
from taskhub.domain.rules.reads import present
from taskhub.domain.rules.sentences import check_sentences
from taskhub.store import statements

_ADD = statements.maybe("add_rule_version", int)
_GOVERNED = statements.none("note_governed")


def save_rules(tenant_id: int, rules: Sequence[Rule], *, expected: int, reason: str = "", actor: Actor) -> RuleList:
    """Save the tenant's rules, for future calls; returns the list that is in force. If nothing differs, there is no new
    version. `expected` is the version that the person was shown. A person who saves rules may not decide on calls that
    were made before.

    Raises `Invalid`, which names the field (`core.rules.check_rules`, `decisions.check_expressions`,
    `sentences.check_sentences`), or `Refused` if the rules have changed since `expected`: if two people save at once,
    one of them is refused.
    """
    check_rules(rules)
    check_expressions(rules)
    check_sentences(rules)
    reason = reason.strip()
    if len(reason) > MAX_REASON or not storable(reason):
        raise Invalid(f"A reason has at most {MAX_REASON} characters, and none of them is U+0000.", field="reason")
    wanted = tuple(rules)
    with transaction.atomic():
        before = present(tenant_id)
        if before.version != expected:
            raise _outdated(before.version)
        if before.rules == wanted:
            return before
        digest = digest_of(wanted)
        number = _ADD(
            tenant=tenant_id,
            expected=expected,
            rules=encoded(wanted).decode(),
            digest=digest,
            made_by=actor.name,
            reason=reason,
        )
        if number is None:
            raise _outdated(present(tenant_id).version)
        note_governed(tenant_id, actor)
        found = difference(before.rules, wanted)
        record_event(
            "rules.changed",
            tenant_id=tenant_id,
            target="rules",
            actor=replace(actor, reason=reason),
            before={"version": before.version, "digest": digest_of(before.rules) if before.version else ""},
            after={
                "version": number,
                "digest": digest,
                "added": list(found.added),
                "removed": list(found.removed),
                "changed": list(found.changed),
                "moved": list(found.moved),
            },
        )
        notify(CatalogueChanged())
    return RuleList(version=number, rules=wanted)


def note_governed(tenant_id: int, actor: Actor) -> None:
    """Note that the actor changed the rules, or somebody's rights: the actor may not decide on calls that were made
    before (`th_barred`)."""
    if actor.user_id is not None:
        _GOVERNED(tenant=tenant_id, user=actor.user_id)


def _outdated(version: int) -> Refused:
    return Refused(
        f"Somebody changed the rules meanwhile: version {version} is in force. Nothing of yours was saved.",
        version=version,
    )
