"""Browser sessions: the table holds nothing that a browser could come in with, and they end with what they rest on."""

from __future__ import annotations

import hashlib

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from taskhub.core.records import Person
from taskhub.domain.clients.principals import person_of_session
from taskhub.store.models import SignIn
from tests.factories import PASSWORD, make_person
from tests.push.kit import cookie_of
from tests.store import raw as sql

pytestmark = pytest.mark.django_db


@pytest.fixture
def mia() -> Person:
    return make_person("viewer", username="mia")


def browser_of(cookie: str) -> Client:
    found = Client()
    found.cookies["sessionid"] = cookie
    return found


def lets_in(cookie: str) -> bool:
    """By a page and by what sockets ask."""
    page = browser_of(cookie).get("/workers/").status_code == 200
    assert page == (person_of_session(cookie) is not None)
    return page


def everything_stored(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t")
        return str(cursor.fetchone()[0])


def test_what_the_table_holds_opens_nothing(mia: Person) -> None:
    cookie = cookie_of(mia)
    assert lets_in(cookie)
    row = SignIn.objects.get()
    assert row.user_id == mia.user_id
    assert row.pk == hashlib.sha256(cookie.encode()).hexdigest()
    assert cookie not in everything_stored("sign_in") + everything_stored("django_session")
    assert not lets_in(row.pk)


def test_a_plain_key_is_refused_by_the_table(mia: Person) -> None:
    with sql.connect() as raw, pytest.raises(psycopg.errors.CheckViolation, match="sign_in_hashed"):
        raw.execute("INSERT INTO sign_in (digest, session_data, expire_date) VALUES (%s, 'x', now())", ["a" * 32])


def test_signing_in_and_out_leave_one_row_and_none(mia: Person) -> None:
    browser = Client()
    browser.post("/accounts/login/", {"login": "mia", "password": PASSWORD})
    first = browser.cookies["sessionid"].value
    assert lets_in(first)
    assert SignIn.objects.count() == 1
    browser.post("/accounts/logout/")
    assert not lets_in(first)
    assert not SignIn.objects.filter(user_id=mia.user_id).exists()


def test_a_new_password_of_ones_own_keeps_this_browser_and_ends_the_others(mia: Person) -> None:
    browser, other = Client(), Client()
    for one in (browser, other):
        one.post("/accounts/login/", {"login": "mia", "password": PASSWORD})
    new = "another horse altogether"
    answer = browser.post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert answer.status_code == 302
    assert browser.get("/workers/").status_code == 200
    assert other.get("/workers/").status_code == 302
    assert SignIn.objects.filter(user_id=mia.user_id).count() == 1


ENDING = {
    "locked out": "UPDATE auth_user SET is_active = false WHERE id = {0}",
    "another password": "UPDATE auth_user SET password = 'x' WHERE id = {0}",
    "no role": "DELETE FROM membership WHERE user_id = {0}",
}


@pytest.mark.parametrize("how", ENDING)
def test_sessions_end_with_what_they_rest_on_whoever_changes_it(mia: Person, how: str) -> None:
    mine, hers = cookie_of(make_person("viewer")), [cookie_of(mia), cookie_of(mia)]
    with connection.cursor() as cursor:
        cursor.execute(ENDING[how].format(mia.user_id))
    assert [lets_in(cookie) for cookie in hers] == [False, False]
    assert lets_in(mine)
    assert not SignIn.objects.filter(user_id=mia.user_id).exists()


def test_who_is_let_in_again_signs_in_again(mia: Person) -> None:
    cookie = cookie_of(mia)
    User.objects.filter(pk=mia.user_id).update(is_active=False)
    User.objects.filter(pk=mia.user_id).update(is_active=True)
    assert not lets_in(cookie)
