"""The rules are read with the catalogue, and heard of in every process once they are saved."""

from __future__ import annotations

import pytest

from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Actor
from taskhub.core.rules import Rule, RuleList, Then
from taskhub.core.states import Door
from taskhub.domain.catalogue.view import cached_catalogue, catalogue, forget_catalogues
from taskhub.domain.rules.changes import save_rules
from taskhub.store.models import Tenant
from tests.domain import kit
from tests.domain.cost import statements
from tests.factories import make_tenant
from tests.store import raw as sql

ADA = Actor(name="ada", door=Door.WEB)
FIRST = Rule(name="first", when="", then=Then.ASK)


def save(tenant: Tenant, *rules: Rule, expected: int) -> RuleList:
    return save_rules(tenant.pk, rules, expected=expected, actor=ADA)


def test_the_catalogue_has_the_rules_of_its_tenant(tenant: Tenant) -> None:
    assert catalogue(tenant.pk).rules.listed == RuleList(0, ())
    other, saved = make_tenant(), save(tenant, FIRST, expected=0)
    assert catalogue(tenant.pk).rules.version == 0, "before the hint is heard"
    forget_catalogues()
    assert catalogue(tenant.pk).rules.listed == saved == RuleList(1, (FIRST,))
    assert catalogue(other.pk).rules.listed == RuleList(0, ())


def test_while_the_catalogue_is_remembered_so_are_they(tenant: Tenant) -> None:
    save(tenant, FIRST, expected=0)
    assert [statements(lambda: catalogue(tenant.pk)) for _ in range(3)] == [4, 0, 0]
    found = cached_catalogue(tenant.pk)
    assert found is not None
    assert found.rules.listed.rules == (FIRST,)


@pytest.mark.django_db(transaction=True)
def test_every_process_hears_of_a_change_and_of_nothing_where_nothing_changed() -> None:
    tenant = make_tenant()
    with sql.connect(autocommit=True) as ear:
        ear.execute(f"LISTEN {HINT_CHANNEL}")
        save(tenant, FIRST, expected=0)
        save(tenant, FIRST, expected=1)
        ear.execute("SELECT pg_notify(%s, 'end')", [HINT_CHANNEL])
        heard = [notice.payload for notice in ear.notifies(timeout=kit.BOUND, stop_after=2)]
    assert heard == ["c", "end"]
