"""Approving a call for which the rule wants a second factor, on its card: the code right there, in this browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.records import Person, TaskRecord
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Role, State
from taskhub.domain.people import factors
from taskhub.store.models import CodeUse, Decision, Event, Question, Tenant
from tests.console.admin import browser, words
from tests.console.test_asking_page import added, asked, card
from tests.console.test_editing_page import call as editable_call
from tests.console.test_editing_page import edit
from tests.domain import kit
from tests.factories import PASSWORD, make_context, make_person, make_server, make_task, make_tool
from tests.support.factors import Phone, types_password

pytestmark = pytest.mark.django_db
NEEDED = "To approve this call, type a code of your second factor."


@pytest.fixture
def mia(tenant: Tenant) -> Person:
    return make_person(Role.APPROVER, tenant, username="mia")


def decide(client: Client, task: TaskRecord, verdict: str = "approve", **typed: str) -> Any:
    question = Question.objects.filter(task_id=task.id).latest("id")
    return client.post(f"/inbox/{question.pk}/decide", {"verdict": verdict, "reason": "", **typed})


def told(response: Any) -> str:
    assert response.status_code == 422, response.status_code
    return words(response.content.decode())


def waits(task: TaskRecord) -> bool:
    return kit.look(task.id).state is State.INPUT_REQUIRED and not Decision.objects.filter(verdict="approve").exists()


def turn_back(client: Client, seconds: float) -> None:
    """As if what was confirmed in this browser had been so much earlier."""
    session = client.session
    session["second_factor"] = {**session["second_factor"], "at": session["second_factor"]["at"] - seconds}
    session.save()


def test_the_form_of_a_rule_has_it(admin: Client, tenant: Tenant) -> None:
    assert added(admin, tenant, second_factor="on").second_factor
    listed = words(admin.get("/rules/").content.decode())
    assert "with a second factor" in listed
    assert "Nobody may approve and has the second factor that the rule wants, and 1 is needed" in listed


def test_a_rule_that_denies_wants_none(admin: Client, tenant: Tenant) -> None:
    assert not added(admin, tenant, then="deny", second_factor="on").second_factor


def test_the_code_is_typed_on_the_card_and_what_else_was_typed_stays(tenant: Tenant, mia: Person) -> None:
    phone, at = Phone(mia), browser(mia)
    task = asked(tenant, second_factor=True, risk="critical")
    page = card(at, task)
    assert "needs one approval with a second factor" in page
    assert "Code of your second factor" in page
    for typed, why in (
        ({"reason": "looks fine"}, "type the name of its tool"),
        ({"reason": "looks fine", "confirmed": "deploy"}, NEEDED),
        ({"reason": "looks fine", "confirmed": "deploy", "code": phone.wrong()}, "That is not a code of yours"),
    ):
        response = decide(at, task, **typed)
        assert why in told(response)
        assert "looks fine" in response.content.decode()
        assert waits(task)
    html = response.content.decode()
    assert re.search(r'<input[^>]*name="code"[^>]*autocomplete="one-time-code"', html)
    assert 'value="deploy"' in html
    done = decide(at, task, confirmed="deploy", code=phone.code())
    assert done.status_code == 302
    assert Decision.objects.get().second_factor == "totp"
    page = words(at.get(f"/inbox/{Question.objects.get().pk}/").content.decode())
    assert "mia approved with a second factor" in page
    page = words(at.get(f"/tasks/{task.public_id}/?view=questions").content.decode())
    assert "mia approved (web, with a second factor)" in page
    assert Event.objects.get(action="question.approve").after["second_factor"] == "totp"


def test_a_code_that_was_right_counts_although_something_else_was_wrong(tenant: Tenant, mia: Person) -> None:
    phone, at = Phone(mia), browser(mia)
    task = asked(tenant, second_factor=True, risk="critical")
    response = decide(at, task, code=phone.code())
    assert "type the name of its tool" in told(response)
    assert "which you confirmed a moment ago" in words(response.content.decode())
    assert 'name="code"' not in response.content.decode()
    assert decide(at, task, confirmed="deploy").status_code == 302


def test_it_counts_in_this_browser_and_for_five_minutes(tenant: Tenant, mia: Person) -> None:
    phone, at, elsewhere = Phone(mia), browser(mia), browser(mia)
    first, second, third = (asked_more(tenant) for _ in range(3))
    assert decide(at, first, code=phone.code()).status_code == 302
    assert NEEDED in told(decide(elsewhere, second))
    # Nor does the code itself count there, which was used here.
    assert "or it was used before" in told(decide(elsewhere, second, code=phone.code()))
    turn_back(at, 290)
    assert "which you confirmed a moment ago" in card(at, second)
    assert decide(at, second).status_code == 302
    turn_back(at, 11)
    assert "Code of your second factor" in card(at, third)
    assert NEEDED in told(decide(at, third))
    assert "or it was used before" in told(decide(at, third, code=phone.code()))
    assert decide(at, third, code=phone.codes[0]).status_code == 302
    assert Decision.objects.latest("id").second_factor == "recovery_codes"


def asked_more(tenant: Tenant) -> TaskRecord:
    rule = Rule(name="Production", when="", then=Then.ASK, second_factor=True)
    return make_task(make_context(tenant), make_tool(make_server(tenant)), verdict=Verdict(Then.ASK, rule, 1))


def test_signing_in_with_a_code_confirms_it_and_another_sign_in_does_not(tenant: Tenant, mia: Person) -> None:
    phone, at = Phone(mia), Client()
    at.post("/accounts/login/", {"login": "mia", "password": PASSWORD})
    at.post("/accounts/login/code/", {"code": phone.code()})
    task = asked(tenant, second_factor=True)
    assert "which you confirmed a moment ago" in card(at, task)
    at.post("/accounts/logout/")
    # Somebody else in the same browser.
    ben = make_person(Role.APPROVER, tenant, username="ben")
    Phone(ben)
    at.force_login(User.objects.get(pk=ben.user_id))
    assert NEEDED in told(decide(at, task))
    session = at.session
    session["second_factor"] = {"user": mia.user_id, "factor": phone.factor, "at": 2**33}
    session.save()
    assert NEEDED in told(decide(at, task))
    assert waits(task)


def test_the_code_of_somebody_else_is_none(tenant: Tenant, mia: Person) -> None:
    Phone(mia)
    other = Phone(make_person(Role.APPROVER, tenant))
    task, at = asked(tenant, second_factor=True), browser(mia)
    for code in (other.code(), other.codes[0]):
        assert "That is not a code of yours" in told(decide(at, task, code=code))
    assert waits(task)


def test_who_has_none_is_told_where_and_may_reject(tenant: Tenant, mia: Person) -> None:
    task, at = asked(tenant, second_factor=True), browser(mia)
    html = at.get(f"/inbox/{Question.objects.get().pk}/").content.decode()
    assert "Approving this needs a second factor, and you have none." in words(html)
    assert 'href="/accounts/factor/"' in html
    assert 'name="code"' not in html
    assert 'value="reject"' in html
    assert 'value="approve"' not in html  # the button is there, and disabled
    assert "and you have none. Set one up under your account." in told(decide(at, task))
    # Such as on a card from before it was removed in another tab: there is no next code to wait for.
    assert "You have no second factor. Set one up" in told(decide(at, task, code="123456"))
    assert not Event.objects.filter(action="person.code.refused").exists()
    assert waits(task)
    assert decide(at, task, "reject", reason="no").status_code == 302
    assert kit.look(task.id).state is State.FINISHED


def test_one_that_was_removed_or_set_up_anew_by_whoever_has_only_the_browser_does_not_count(
    tenant: Tenant, mia: Person
) -> None:
    phone, at = Phone(mia), browser(mia)
    first = asked_more(tenant)
    assert decide(at, first, code=phone.code()).status_code == 302
    task = asked_more(tenant)
    # They cannot remove it or set up theirs without the password.
    for url in ("/accounts/factor/remove", "/accounts/factor/codes"):
        assert at.post(url)["Location"].startswith("/accounts/reauthenticate/")
    assert Authenticator.objects.filter(user_id=mia.user_id, pk=phone.factor).exists()
    types_password(at)
    at.post("/accounts/factor/remove")
    assert "and you have none" in told(decide(at, task))
    CodeUse.objects.update(step=0)  # as if a minute had gone by
    Phone(mia, kept=at.cookies["sessionid"].value)
    assert NEEDED in told(decide(at, task))
    assert not Decision.objects.filter(question__task_id=task.id).exists()


def test_too_many_wrong_codes_are_said_on_the_card(tenant: Tenant, mia: Person) -> None:
    phone, at = Phone(mia), browser(mia)
    task = asked(tenant, second_factor=True)
    for _ in range(factors.TRIES):
        decide(at, task, code=phone.wrong())
    assert "Too many wrong codes: at most 10 in 15 minutes." in told(decide(at, task, code=phone.code()))
    assert waits(task)


def test_an_edited_call_asks_for_it_with_the_difference(tenant: Tenant, mia: Person) -> None:
    phone, at = Phone(mia), browser(mia)
    task = editable_call(tenant, second_factor=True)
    shown, confirm = edit(at, task, f0="staging", reason="not yet")
    assert "Code of your second factor" in words(shown.content.decode())
    where = f"/inbox/{Question.objects.get(task_id=task.id).pk}/edit"
    for code, why in (("", NEEDED), (phone.wrong(), "That is not a code of yours")):
        response = at.post(where, {**confirm, "code": code})
        assert why in told(response)
        assert "env prod staging" in words(response.content.decode())
    assert waits(task)
    assert at.post(where, {**confirm, "code": phone.code()}).status_code == 302
    assert Decision.objects.get().second_factor == "totp"
    assert kit.claim_one().arguments["env"] == "staging"


def test_too_few_who_have_one_is_said_on_the_card(tenant: Tenant, mia: Person) -> None:
    task = asked(tenant, second_factor=True, quorum=2)
    Phone(mia)
    at = browser(mia)
    assert "1 of the 2 who are needed, as it takes a second factor" in card(at, task)
    Phone(make_person(Role.APPROVER, tenant))
    assert "as it takes a second factor" not in card(at, task)
