"""Adding people and changing their roles, below the pages: what is stored, and whose tenant it touches."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door, QuestionKind, Role
from taskhub.domain.clients.principals import person_of, principal_of
from taskhub.domain.people import writes as people
from taskhub.domain.people.writes import add_person, has_people, set_role
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome, decide_approval
from taskhub.store.models import Consent, Decision, Event, Membership, Question, SignIn, Tenant
from tests.factories import (
    PASSWORD,
    make_context,
    make_person,
    make_question,
    make_server,
    make_task,
    make_tenant,
    make_tool,
)
from tests.push.kit import cookie_of
from tests.support.oauth import Program, make_application

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


# --- disabled, enabled, removed, another password


def who(person: Any) -> dict[str, Any]:
    return {"tenant_id": person.tenant_id, "user_id": person.user_id, "actor": ROOT}


def last() -> tuple[str, str, str, str, Any, Any]:
    event = Event.objects.latest("id")
    return event.action, event.target, event.actor, event.door, event.before, event.after


def test_a_disabled_person_is_out_until_enabled(tenant: Tenant) -> None:
    mia = make_person("viewer", tenant, username="mia")
    cookie_of(mia)
    assert people.disable(**who(mia))
    assert last() == ("person.disabled", "mia", "root", "cli", {"active": True}, {"active": False})
    assert not SignIn.objects.filter(user_id=mia.user_id).exists()
    assert authenticate(username="mia", password=PASSWORD) is None
    assert people.disable(**who(mia)) is False
    assert people.enable(**who(mia))
    assert last()[0] == "person.enabled"
    assert people.enable(**who(mia)) is False
    assert Event.objects.count() == 2
    assert authenticate(username="mia", password=PASSWORD) is not None
    assert person_of(mia.user_id, "mia") == mia


def acting_for(person: Any, tenant: Tenant) -> str:
    """The token of a program that acts for the person."""
    browser = Client()
    browser.force_login(User.objects.get(pk=person.user_id))
    found: str = Program.of(browser, make_application(tenant)[0]).sign_in()["access_token"]
    return found


def test_programs_of_a_disabled_person_are_refused_and_of_a_removed_one_forgotten(tenant: Tenant) -> None:
    mia = make_person("operator", tenant)
    token = acting_for(mia, tenant)
    assert principal_of(token, "") is not None
    people.disable(**who(mia))
    assert principal_of(token, "") is None
    people.enable(**who(mia))
    assert principal_of(token, "") is not None
    people.remove(**who(mia))
    assert principal_of(token, "") is None
    assert not Consent.objects.exists()


def approval(tenant: Tenant) -> Question:
    asked = make_question(QuestionKind.APPROVAL, quorum=2)
    task = make_task(make_context(tenant), make_tool(make_server(tenant)), state="input_required", question=asked)
    return Question.objects.get(task_id=task.id)


def decide(question: Question, person: Any) -> AnswerOutcome:
    actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    item = inbox.question(person, question.pk)
    assert item is not None
    return decide_approval(item.task_id, item.question, approve=True, actor=actor)


def test_what_a_removed_person_did_keeps_their_name_and_they_decide_nothing_twice(tenant: Tenant) -> None:
    mia = make_person("approver", tenant, username="mia", groups=["ops"])
    question = approval(tenant)
    assert decide(question, mia) is AnswerOutcome.COUNTED
    cookie_of(mia)
    assert people.remove(**who(mia)) == "mia"
    assert last() == ("person.removed", "mia", "root", "cli", {"role": "approver", "groups": ["ops"]}, None)
    assert person_of(mia.user_id, "mia") is None
    assert not SignIn.objects.filter(user_id=mia.user_id).exists()
    assert authenticate(username="mia", password=PASSWORD) is None
    assert list(Decision.objects.values_list("actor", "user_id")) == [("mia", mia.user_id)]
    assert Event.objects.filter(actor="mia", user_id=mia.user_id).exists()
    # Back under the same name: the same person, with nothing of what they had.
    user_id, password = add_person(tenant_id=tenant.pk, username="Mia", role="approver", actor=ROOT)
    assert user_id == mia.user_id
    assert authenticate(username="mia", password=PASSWORD) is None
    assert authenticate(username="mia", password=password) is not None
    again = person_of(user_id, "mia")
    assert again is not None
    assert again.groups == frozenset()
    assert decide(question, again) is AnswerOutcome.TWICE


def test_a_disabled_persons_name_stays_taken(tenant: Tenant) -> None:
    mia = make_person("viewer", tenant, username="mia")
    people.disable(**who(mia))
    with pytest.raises(Refused, match="There is a person named mia already"):
        add_person(tenant_id=tenant.pk, username="mia", role="admin", actor=ROOT)


def test_whoever_is_removed_from_one_tenant_stays_in_the_other(tenant: Tenant) -> None:
    mia, other = make_person("viewer", tenant), make_tenant()
    Membership.objects.create(tenant=other, user_id=mia.user_id, role="operator")
    people.remove(**who(mia))
    found = person_of(mia.user_id, mia.username)
    assert found is not None
    assert (found.tenant_id, User.objects.get(pk=mia.user_id).is_active) == (other.pk, True)


@pytest.mark.parametrize("change", [people.disable, people.remove])
def test_the_only_admin_is_refused_in_words(tenant: Tenant, change: Any) -> None:
    root = make_person("admin", tenant, username="root")
    cookie_of(root)
    with pytest.raises(Refused, match="root is the only admin; make somebody else admin first"):
        change(**who(root))
    assert SignIn.objects.count() == 1
    assert Event.objects.count() == 0
    make_person("admin", tenant)
    change(**who(root))


@pytest.mark.parametrize("change", [people.disable, people.enable, people.remove, people.give_password])
def test_people_of_another_tenant_do_not_exist(tenant: Tenant, change: Any) -> None:
    mia = make_person("viewer", tenant)
    with pytest.raises(NotFound, match="No such person"):
        change(**{**who(mia), "tenant_id": make_tenant().pk})
    assert Event.objects.count() == 0


def test_a_given_password_ends_all_sessions_and_is_not_kept(tenant: Tenant) -> None:
    mia = make_person("viewer", tenant, username="mia")
    cookie_of(mia)
    name, password = people.give_password(**who(mia))
    assert name == "mia"
    assert re.fullmatch(r"([a-hjkmnp-z2-9]{5}-){3}[a-hjkmnp-z2-9]{5}", password)
    assert last() == ("person.password.set", "mia", "root", "cli", None, None)
    assert not SignIn.objects.exists()
    assert authenticate(username="mia", password=PASSWORD) is None
    assert authenticate(username="mia", password=password) is not None
    assert person_of(mia.user_id, "mia") != mia
    assert people.give_password(**who(mia), password="a horse of another colour")[1] == "a horse of another colour"


@pytest.mark.parametrize(("password", "why"), [("short", "at least 12 characters"), ("password1234", "too common")])
def test_a_password_that_is_too_weak_changes_nothing(tenant: Tenant, password: str, why: str) -> None:
    mia = make_person("viewer", tenant, username="mia")
    cookie_of(mia)
    with pytest.raises(Invalid, match=why):
        people.give_password(**who(mia), password=password)
    assert authenticate(username="mia", password=PASSWORD) is not None
    assert (SignIn.objects.count(), Event.objects.count()) == (1, 0)
