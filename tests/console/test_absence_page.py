"""A person's absence on their pages, and what their deputy sees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from taskhub.core.records import Person
from taskhub.core.states import Role
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Absence, Event, Question, Tenant
from tests.console.admin import browser, words
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db

PAGE = "/accounts/away/"


@pytest.fixture
def paul(tenant: Tenant) -> Person:
    return make_person("approver", tenant, username="paul", groups=["ops"])


@pytest.fixture
def dora(tenant: Tenant) -> Person:
    return make_person("approver", tenant, username="dora")


def given(**change: str) -> dict[str, str]:
    until = datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(days=3)
    return {"until": f"{until:%Y-%m-%dT%H:%M}", "zone": "Europe/Berlin", "deputy": "dora", **change}


def asked(tenant: Any, **asks: Any) -> Question:
    heartbeat("worker-1", slots=8, busy=0)
    tool = make_tool(make_server(tenant), asks=asks)
    task = make_task(make_context(tenant, "ci-bot"), tool, arguments={"service": "web"})
    return Question.objects.get(task_id=task.id)


def page_of(client: Client, path: str) -> str:
    return words(client.get(path).content.decode())


def test_a_person_goes_away_and_comes_back(paul: Person, dora: Person) -> None:
    own = browser(paul)
    assert "You are here." in page_of(own, "/accounts/")
    form = own.get(PAGE).content.decode()
    assert '<option value="dora"' in form
    assert '<option value="paul"' not in form
    wanted = given()
    told = words(own.post(PAGE, wanted, follow=True).content.decode())
    assert "Saved. You are away." in told
    assert "dora decides for you until then" in told
    row = Absence.objects.get()
    assert row.until == datetime.fromisoformat(wanted["until"]).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    again = own.get(PAGE).content.decode()
    assert "I am back" in again
    assert '<option value="dora" selected' in again
    assert "You stand in for paul , who is back" in page_of(browser(dora), "/accounts/")
    assert "You are back" in words(own.post(f"{PAGE}back", follow=True).content.decode())
    assert "You are not away." in words(own.post(f"{PAGE}back", follow=True).content.decode())
    assert not Absence.objects.exists()
    assert list(Event.objects.filter(action__startswith="person.").values_list("action", flat=True)) == [
        "person.away",
        "person.back",
    ]


BAD = (
    ({"until": ""}, "until"),
    ({"until": "tomorrow"}, "until"),
    ({"until": "9999-01-01T00:00"}, "until"),
    ({"until": "2999-01-01T00:00"}, "until"),
    ({"until": "2020-01-01T00:00"}, "until"),
    ({"zone": "Mars/Olympus"}, "zone"),
    ({"deputy": "paul"}, "deputy"),
    ({"deputy": "nobody"}, "deputy"),
    ({"deputy": "vera"}, "deputy"),
)


def test_what_cannot_be_changes_nothing(paul: Person, dora: Person, tenant: Tenant) -> None:
    make_person("viewer", tenant, username="vera")
    own = browser(paul)
    for change, field in BAD:
        answer = own.post(PAGE, given(**change))
        assert answer.status_code == 400, change
        assert list(answer.context["form"].errors) == [field], change
    assert not Absence.objects.exists()
    assert own.get(f"{PAGE}back").status_code == 405


def test_who_does_not_approve_is_away_without_a_deputy(tenant: Tenant, dora: Person) -> None:
    for role in Role:
        person = make_person(role, tenant)
        own = browser(person)
        approves = role in (Role.APPROVER, Role.ADMIN)
        assert ('name="deputy"' in own.get(PAGE).content.decode()) is approves, role
        assert own.post(PAGE, given()).status_code == 302, role
        row = Absence.objects.get(membership__user_id=person.user_id)
        assert (row.deputy_id is not None) is approves, role
    assert Client().get(PAGE)["Location"] == "/accounts/login/?next=%2Faccounts%2Faway%2F"


def test_the_deputy_sees_for_whom_they_decide_and_the_log_says_so(paul: Person, dora: Person, tenant: Tenant) -> None:
    question = asked(tenant, group="ops")
    deputy = browser(dora)
    assert "Nothing waits for you." in page_of(deputy, "/inbox/")
    told = "You stand in for paul , who is back"
    for path in ("/inbox/", "/accounts/notifications/"):
        assert told not in page_of(deputy, path), path
    browser(paul).post(PAGE, given())
    for path in ("/inbox/", "/accounts/notifications/"):
        assert told in page_of(deputy, path), path
        assert told not in page_of(browser(paul), path), path
    inbox = page_of(deputy, "/inbox/")
    assert "for paul , who is away" in inbox
    assert "You decide this for paul , who is away: it is the vote of you both." in inbox
    told = deputy.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True)
    assert "Approved." in words(told.content.decode())
    for path in (
        f"/inbox/{question.pk}/",
        f"/tasks/{question.task.public_id}/?view=questions",
        f"/tasks/{question.task.public_id}/?view=timeline",
        "/inbox/?queue=decided",
    ):
        assert "dora for paul" in page_of(deputy, path), path
    auditor = browser(make_person("auditor", tenant))
    for actor in ("dora", "paul"):
        assert "dora for paul" in page_of(auditor, f"/audit/?actor={actor}")


def test_who_is_back_reads_that_their_deputy_has_decided(paul: Person, dora: Person, tenant: Tenant) -> None:
    question = asked(tenant, group="ops", quorum=2)
    own = browser(paul)
    own.post(PAGE, given())
    browser(dora).post(f"/inbox/{question.pk}/decide", {"verdict": "approve"})
    own.post(f"{PAGE}back")
    assert "Your deputy has decided this for you. 1 of 2 approvals so far." in page_of(own, f"/inbox/{question.pk}/")
    told = own.post(f"/inbox/{question.pk}/decide", {"verdict": "approve"}, follow=True)
    assert "Your deputy has already decided this." in words(told.content.decode())
    assert datetime.now(UTC) > question.opened_at
