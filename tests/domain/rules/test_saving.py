"""A tenant's rules: saved as versions that stay, by one person at a time, on record."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.models import ProtectedError

from taskhub.core.errors import Invalid, Refused
from taskhub.core.records import Actor
from taskhub.core.rules import MAX_REASON, Rule, RuleList, Then, digest_of
from taskhub.core.states import Door
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present, version, versions
from taskhub.store.models import Event, RuleVersion, Tenant
from tests.domain import kit
from tests.factories import make_tenant

pytestmark = pytest.mark.django_db

ADA = Actor(name="ada", door=Door.WEB)
A, B, C = (Rule(name=name, when=f"tool.name == '{name}'", then=Then.DENY) for name in "abc")


def save(tenant: Tenant, *rules: Rule, expected: int, reason: str = "") -> RuleList:
    return save_rules(tenant.pk, rules, expected=expected, reason=reason, actor=ADA)


def events() -> list[tuple[Any, Any]]:
    """Before and after of each change, oldest first."""
    return list(Event.objects.filter(action="rules.changed").order_by("id").values_list("before", "after"))


def test_a_tenant_begins_without_rules(tenant: Tenant) -> None:
    assert present(tenant.pk) == RuleList(version=0, rules=())
    assert versions(tenant.pk) == []
    assert version(tenant.pk, 1) is None


def test_what_was_saved_last_is_in_force_and_every_version_stays(tenant: Tenant) -> None:
    whole = replace(
        A, then=Then.ASK, when='args.note == "\\n ünï"\n', group="ops", quorum=3, enabled=False, shadow=True
    )
    first, second = save(tenant, whole, B, expected=0, reason=" new "), save(tenant, B, expected=1)
    assert first == RuleList(version=1, rules=(whole, B))
    assert present(tenant.pk) == second == RuleList(version=2, rules=(B,))
    kept = version(tenant.pk, 1)
    assert kept is not None
    assert (kept.rules, kept.size, kept.digest) == (first.rules, 2, digest_of(first.rules))
    assert (kept.made_by, kept.reason) == ("ada", "new")
    assert [(row.number, row.size, row.reason) for row in versions(tenant.pk)] == [(2, 1, ""), (1, 2, "new")]


def test_the_history_is_read_by_pages(tenant: Tenant) -> None:
    for number in range(5):
        save(tenant, replace(A, words=str(number)), expected=number)
    assert [row.number for row in versions(tenant.pk, most=2)] == [5, 4]
    assert [row.number for row in versions(tenant.pk, before=4, most=2)] == [3, 2]
    assert [row.number for row in versions(tenant.pk, before=2, most=2)] == [1]
    assert versions(tenant.pk, before=1) == []


@pytest.mark.parametrize("number", [-1, 0, 2, 2**31, 2**80])
def test_a_version_that_is_not_there_is_none(tenant: Tenant, number: int) -> None:
    save(tenant, A, expected=0)
    assert version(tenant.pk, number) is None


def test_tenants_have_rules_and_numbers_of_their_own(tenant: Tenant) -> None:
    other = make_tenant()
    save(tenant, A, expected=0)
    assert present(other.pk).version == 0
    save(other, B, expected=0)
    assert (present(tenant.pk).rules, present(other.pk).rules) == ((A,), (B,))
    assert version(tenant.pk, 1) != version(other.pk, 1)
    assert len(versions(tenant.pk)) == 1


def test_a_change_is_on_record_by_the_names_of_rules_and_the_digest_of_all(tenant: Tenant) -> None:
    save(tenant, A, B, expected=0, reason="why")
    save(tenant, replace(B, words="no"), A, C, expected=1)
    save(tenant, C, expected=2)
    digests = ["", *RuleVersion.objects.order_by("number").values_list("digest", flat=True)]
    told = [
        {"added": ["a", "b"], "removed": [], "changed": [], "moved": []},
        {"added": ["c"], "removed": [], "changed": ["b"], "moved": ["b"]},
        {"added": [], "removed": ["b", "a"], "changed": [], "moved": []},
    ]
    assert events() == [
        (
            {"version": number, "digest": digests[number]},
            {"version": number + 1, "digest": digests[number + 1], **names},
        )
        for number, names in enumerate(told)
    ]
    first = Event.objects.filter(action="rules.changed").earliest("id")
    assert (first.actor, first.door, first.reason, first.target) == ("ada", "web", "why", "rules")


def test_a_list_that_is_as_it_was_makes_no_version(tenant: Tenant) -> None:
    assert save(tenant, expected=0) == RuleList(version=0, rules=())
    saved = save(tenant, A, B, expected=0)
    assert save(tenant, A, B, expected=1, reason="again") == saved
    assert (len(versions(tenant.pk)), len(events())) == (1, 1)
    assert save(tenant, B, A, expected=1).version == 2, "their order is part of it"
    assert save(tenant, expected=2) == present(tenant.pk) == RuleList(version=3, rules=())


@pytest.mark.parametrize("expected", [0, 1, 3, -1, 2**40])
def test_whoever_saw_another_version_than_the_present_one_is_refused(tenant: Tenant, expected: int) -> None:
    save(tenant, A, expected=0)
    save(tenant, B, expected=1)
    with pytest.raises(Refused, match="Somebody changed the rules meanwhile: version 2 is in force") as caught:
        save(tenant, C, expected=expected)
    assert caught.value.data == {"version": 2}
    with pytest.raises(Refused):
        save(tenant, B, expected=expected)  # even what is in force: it is not what they were shown
    assert (present(tenant.pk).rules, len(events())) == ((B,), 2)


@pytest.mark.parametrize(
    ("rules", "reason", "field"),
    [
        ([A, replace(B, name="a")], "", "rules.1.name"),
        ([replace(A, quorum=0)], "", "rules.0.quorum"),
        ([A], "r" * (MAX_REASON + 1), "reason"),
        ([A], "a\0b", "reason"),
        ([A], "a\ud800", "reason"),
    ],
)
def test_what_cannot_be_saved_changes_nothing(tenant: Tenant, rules: list[Rule], reason: str, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        save(tenant, *rules, expected=0, reason=reason)
    assert caught.value.data["field"] == field
    assert present(tenant.pk).version == 0
    assert events() == []


def test_a_reason_may_have_lines(tenant: Tenant) -> None:
    save(tenant, A, expected=0, reason="One.\nTwo.")
    assert versions(tenant.pk)[0].reason == "One.\nTwo."


def test_a_tenant_with_versions_stays(tenant: Tenant) -> None:
    save(tenant, A, expected=0)
    with pytest.raises(ProtectedError):
        tenant.delete()


@pytest.fixture
def crew() -> Iterator[kit.Crew]:
    made = kit.Crew(2)
    yield made
    made.close()


@pytest.mark.django_db(transaction=True)
def test_of_two_who_save_at_once_one_is_refused(crew: kit.Crew) -> None:
    tenant = make_tenant()
    for number in range(10):
        mine, theirs = (replace(A, words=f"{who} {number}") for who in ("mine", "theirs"))
        outcomes: list[Any] = crew.race(
            partial(save, tenant, mine, expected=number),
            partial(save, tenant, theirs, expected=number),
        )
        (saved,) = (outcome for outcome in outcomes if isinstance(outcome, RuleList))
        (refused,) = (outcome for outcome in outcomes if isinstance(outcome, Refused))
        assert saved == present(tenant.pk) == RuleList(version=number + 1, rules=saved.rules)
        assert refused.data == {"version": number + 1}
    assert [row.number for row in versions(tenant.pk)] == list(range(10, 0, -1))
    assert len(events()) == 10


WAITING_FOR_ME = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"


@pytest.mark.django_db(transaction=True)
def test_whoever_saves_before_another_has_committed_waits_and_is_refused(crew: kit.Crew) -> None:
    """The second still reads the version that both expect."""
    tenant, written = make_tenant(), threading.Event()

    def first() -> None:
        with transaction.atomic():
            save(tenant, A, expected=0)
            written.set()
            kit.wait_until(lambda: kit.count_rows(WAITING_FOR_ME) == 1)

    def second() -> RuleList:
        assert written.wait(kit.BOUND)
        return save(tenant, B, expected=0)

    outcomes: list[Any] = crew.race(first, second)
    assert outcomes[0] is None
    assert isinstance(outcomes[1], Refused)
    assert outcomes[1].data == {"version": 1}
    assert present(tenant.pk).rules == (A,)
    assert [after["added"] for _, after in events()] == [["a"]]
