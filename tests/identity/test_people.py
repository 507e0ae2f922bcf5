"""Adding people and changing their roles, below the pages: what is stored, and whose tenant it touches."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door, Role
from taskhub.identity.people import add_person, has_people, set_role
from taskhub.identity.principals import person_of
from taskhub.store.models import Event, Membership, Tenant
from tests.factories import make_person, make_tenant

pytestmark = pytest.mark.django_db
ROOT = Actor(name="root", door=Door.CLI)


def test_groups_are_stored_once_each_in_order_and_without_blanks_around_them(tenant: Tenant) -> None:
    user_id, _ = add_person(
        tenant_id=tenant.pk, username=" mia ", role="operator", groups=[" ops", "db", "ops ", "", "  "], actor=ROOT
    )
    member = Membership.objects.get(user_id=user_id)
    assert member.groups == ["db", "ops"]
    assert User.objects.get(pk=user_id).username == "mia"


def test_a_new_persons_password_is_stored_as_a_hash_and_is_readable_aloud(tenant: Tenant) -> None:
    made = [add_person(tenant_id=tenant.pk, username=f"mia{n}", role="viewer", actor=ROOT) for n in range(5)]
    assert len({password for _, password in made}) == 5
    for user_id, password in made:
        assert re.fullmatch(r"([a-hjkmnp-z2-9]{5}-){3}[a-hjkmnp-z2-9]{5}", password)
        user = User.objects.get(pk=user_id)
        assert user.check_password(password)
        assert password not in user.password


@pytest.mark.parametrize("role", Role)
def test_a_new_person_has_the_role_in_that_tenant_and_no_other(tenant: Tenant, role: Role) -> None:
    other = make_tenant()
    user_id, _ = add_person(tenant_id=tenant.pk, username="mia", role=role, actor=ROOT)
    person = person_of(user_id, "mia")
    assert person is not None
    assert (person.role, person.tenant_id) == (role, tenant.pk)
    assert has_people(tenant.pk)
    assert not has_people(other.pk)


@pytest.mark.parametrize("group", ["a/b", "a;b", "-lead", "x" * 65, "a\nb"])
def test_a_group_with_a_name_like_that_makes_no_person(tenant: Tenant, group: str) -> None:
    with pytest.raises(Invalid) as caught:
        add_person(tenant_id=tenant.pk, username="mia", role="viewer", groups=["ops", group], actor=ROOT)
    assert caught.value.data == {"field": "groups"}
    assert (User.objects.count(), Event.objects.count()) == (0, 0)


def test_a_role_is_changed_in_ones_own_tenant_only(tenant: Tenant) -> None:
    mia = make_person("viewer", tenant)
    with pytest.raises(NotFound, match="No such person"):
        set_role(tenant_id=make_tenant().pk, user_id=mia.user_id, role="admin", actor=ROOT)
    assert Membership.objects.get(user_id=mia.user_id).role == "viewer"
    assert Event.objects.count() == 0


def test_a_change_that_changes_nothing_says_so_and_is_no_entry(tenant: Tenant) -> None:
    mia = make_person("viewer", tenant, groups=["ops"])
    assert set_role(tenant_id=tenant.pk, user_id=mia.user_id, role="viewer", groups=["ops"], actor=ROOT) is False
    assert set_role(tenant_id=tenant.pk, user_id=mia.user_id, role="viewer", actor=ROOT) is False
    assert Event.objects.count() == 0
    assert set_role(tenant_id=tenant.pk, user_id=mia.user_id, role="viewer", groups=[], actor=ROOT) is True
    assert Membership.objects.get(user_id=mia.user_id).groups == []


def test_the_admin_of_one_tenant_does_not_count_in_another(tenant: Tenant) -> None:
    """Two tenants with one admin each: both are the last one where they are."""
    make_person("admin")
    root = make_person("admin", tenant, username="root")
    with pytest.raises(Refused, match="root is the only admin"):
        set_role(tenant_id=tenant.pk, user_id=root.user_id, role="operator", actor=ROOT)
