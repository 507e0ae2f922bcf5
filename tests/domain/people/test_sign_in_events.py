"""Who signed in, who left and who was refused is on record; what somebody typed is not."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.records import Person
from taskhub.store.models import Event, Tenant
from tests.console.admin import browser, words
from tests.factories import PASSWORD, make_person, make_user

pytestmark = pytest.mark.django_db

LOGIN, LOGOUT, CHANGE = "/accounts/login/", "/accounts/logout/", "/accounts/password/change/"
NEW = "another horse, another staple"
SECRETS = ("hunter2-hunter2", "tr0ub4dor&3")


def log_in(name: str, password: str, client: Client | None = None, address: str = "192.0.2.9") -> Any:
    fields = {"login": name, "password": password}
    return (client or Client()).post(LOGIN, fields, REMOTE_ADDR=address)


def change(client: Client, old: str, new: str = NEW, again: str = NEW) -> Any:
    return client.post(CHANGE, {"oldpassword": old, "password1": new, "password2": again})


def told(*fields: str) -> list[tuple[Any, ...]]:
    """Those fields of all events about people."""
    return list(Event.objects.filter(action__startswith="person.").order_by("id").values_list(*fields))


def test_a_person_signs_in_and_out(ada: Person, tenant: Tenant) -> None:
    client = Client()
    assert log_in("ada", PASSWORD, client).status_code == 302
    assert client.get("/tasks/").status_code == 200
    assert client.post(LOGOUT, REMOTE_ADDR="192.0.2.10").status_code == 302
    assert told("action", "target", "actor", "user_id", "tenant_id", "door", "address") == [
        ("person.signed.in", "ada", "ada", ada.user_id, tenant.pk, "web", "192.0.2.9"),
        ("person.signed.out", "ada", "ada", ada.user_id, tenant.pk, "web", "192.0.2.10"),
    ]


def test_who_was_not_signed_in_leaves_no_trace_of_leaving(ada: Person) -> None:
    client = browser(ada)
    client.get(LOGOUT)
    client.post(LOGOUT)
    client.post(LOGOUT)
    Client().post(LOGOUT)
    assert told("action") == [("person.signed.out",)]


def test_a_wrong_password_is_a_strangers_try_at_that_person(ada: Person, tenant: Tenant) -> None:
    for name in ("ada", "ADA"):
        assert log_in(name, SECRETS[0]).status_code == 200
    assert (
        told("action", "target", "actor", "user_id", "tenant_id", "address")
        == [("person.refused", "ada", "a stranger", None, tenant.pk, "192.0.2.9")] * 2
    )


@pytest.mark.parametrize("name", ["nobody-here", SECRETS[1], "a\u202eb", "x" * 150])
def test_of_a_name_that_is_nobodys_only_the_try_is_on_record(ada: Person, name: str) -> None:
    assert log_in(name, SECRETS[0]).status_code == 200
    assert told("action", "target", "actor", "user_id", "tenant_id", "address") == [
        ("person.refused", "nobody", "a stranger", None, None, "192.0.2.9")
    ]
    (event,) = Event.objects.values()
    assert name not in str(event)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5_000])
def test_a_form_that_is_not_filled_in_is_no_try(name: str) -> None:
    assert log_in(name, "x").status_code == 200
    assert told("action") == []


def test_no_password_is_ever_on_record(ada: Person) -> None:
    client = Client()
    log_in("ada", SECRETS[0])
    log_in(SECRETS[1], SECRETS[0])
    log_in("ada", PASSWORD, client)
    change(client, SECRETS[0])
    change(client, PASSWORD, SECRETS[0], SECRETS[0])
    log_in("ada", SECRETS[0])
    assert len(told("action")) == 6
    rows = str(list(Event.objects.values()))
    for secret in (*SECRETS, PASSWORD, NEW):
        assert secret not in rows


def test_a_changed_password_is_on_record_once_it_is_changed(ada: Person, tenant: Tenant) -> None:
    client = Client()
    log_in("ada", PASSWORD, client)
    assert change(client, "wrong").status_code == 200
    assert change(client, PASSWORD, NEW, "something else").status_code == 200
    assert change(client, PASSWORD, "x", "x").status_code == 200
    assert told("action", "actor") == [("person.signed.in", "ada"), ("person.refused", "a stranger")]
    assert change(client, PASSWORD).status_code == 302
    assert told("action", "target", "actor", "user_id", "tenant_id", "address")[2:] == [
        ("person.password.changed", "ada", "ada", ada.user_id, tenant.pk, "127.0.0.1")
    ]
    assert log_in("ada", NEW).status_code == 302


def test_somebody_without_a_role_is_on_record_too() -> None:
    user = make_user("lone")
    client = Client()
    assert log_in("lone", PASSWORD, client).status_code == 302
    client.post(LOGOUT)
    log_in("lone", "wrong")
    assert told("action", "target", "user_id", "tenant_id") == [
        ("person.signed.in", "lone", user.pk, None),
        ("person.signed.out", "lone", user.pk, None),
        ("person.refused", "lone", None, None),
    ]


def test_tries_beyond_the_limit_do_not_fill_the_log(ada: Person) -> None:
    for _ in range(15):
        log_in("ada", "wrong")
    assert len(told("action")) == 10


def test_the_auditor_reads_who_signed_in_and_sees_no_other_tenants(ada: Person, tenant: Tenant) -> None:
    make_person("viewer", username="mallory")
    log_in("ada", PASSWORD)
    log_in("mallory", PASSWORD)
    page = words(browser(make_person("auditor", tenant)).get("/audit/").content.decode())
    assert "person.signed.in" in page
    assert "ada" in page
    assert "mallory" not in page


def test_a_closed_account_is_told_so_and_on_record(ada: Person) -> None:
    User.objects.filter(pk=ada.user_id).update(is_active=False)
    client = Client()
    response = log_in("ada", PASSWORD, client)
    assert response.status_code == 403
    assert "This account is disabled" in words(response.content.decode())
    assert client.get("/tasks/").status_code == 302, "still a stranger"
    assert told("action", "target", "actor") == [("person.refused", "ada", "a stranger")]


@pytest.mark.parametrize("forwarded", ["unknown", "", "192.0.2.1, nonsense"])
def test_behind_proxies_the_address_is_the_one_that_the_guard_settled(
    ada: Person, settings: Any, forwarded: str
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2
    fields = {"login": "ada", "password": PASSWORD}
    response = Client().post(LOGIN, fields, REMOTE_ADDR="192.0.2.9", headers={"X-Forwarded-For": forwarded})
    assert response.status_code == 302
    tokens = Client().post("/oauth/token", {"grant_type": "refresh_token"}, headers={"X-Forwarded-For": forwarded})
    assert tokens.status_code in (400, 401)
    assert told("action", "address") == [("person.signed.in", "192.0.2.9")]


def test_who_guesses_is_stopped_and_told_so(ada: Person) -> None:
    statuses = [log_in("ada", f"guess {number}").status_code for number in range(10)]
    assert statuses == [200] * 10
    stopped = log_in("ada", PASSWORD)
    assert stopped.status_code == 429
    assert "Too many failed login attempts" in words(stopped.content.decode())
    assert len(told("action")) == 10, "what is not looked at is not on record"
    other = make_person("viewer", username="mia")
    assert log_in("mia", PASSWORD, address="192.0.2.77").status_code == 302, other


def test_who_guesses_in_an_open_browser_is_stopped_and_on_record(ada: Person) -> None:
    """The page that changes the password tells whether the present one is right."""
    client = Client()
    log_in("ada", PASSWORD, client)
    assert [change(client, f"guess {number}").status_code for number in range(9)] == [200] * 9
    assert change(client, PASSWORD).status_code == 302, "its owner counts anew"
    assert [change(client, f"guess {number}").status_code for number in range(10)] == [200] * 10
    stopped = change(client, NEW, "a third horse of all")
    assert stopped.status_code == 429
    assert "Too many tries Nothing was changed." in words(stopped.content.decode())
    refused = [row for row in told("action", "target", "actor") if row[0] == "person.refused"]
    assert refused == [("person.refused", "ada", "a stranger")] * 19


def test_a_wrong_password_before_a_change_of_the_factor_counts_as_at_sign_in(ada: Person) -> None:
    client = Client()
    log_in("ada", PASSWORD, client)
    for number in range(10):
        client.post("/accounts/reauthenticate/", {"password": f"guess {number}"})
    assert len([row for row in told("action") if row[0] == "person.refused"]) == 10
    assert log_in("ada", PASSWORD).status_code == 429, "of the name, wherever it is typed"
