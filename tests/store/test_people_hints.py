"""Whoever changes what a person may, and however: every process is told to look anew, when it commits."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from taskhub.domain.clients.principals import cached_principal, principal_of
from taskhub.store.models import Tenant
from tests.factories import make_person, make_tenant, make_user
from tests.push.kit import feeding, listening, notify, until
from tests.store import raw as sql
from tests.support.oauth import Program, make_application

pytestmark = pytest.mark.usefixtures("transactional_db")

TELLING = {
    "deactivated": "UPDATE auth_user SET is_active = false WHERE id = {user}",
    "activated": "UPDATE auth_user SET is_active = true WHERE id = {user}",
    "everybody deactivated": "UPDATE auth_user SET is_active = false",
    "deleted": "DELETE FROM auth_user WHERE id = {other}",
    "another role": "UPDATE membership SET role = 'viewer' WHERE user_id = {user}",
    "another tenant": "UPDATE membership SET tenant_id = {tenant} WHERE user_id = {user}",
    "no role": "DELETE FROM membership WHERE user_id = {user}",
}
SILENT = {
    "signed in": "UPDATE auth_user SET last_login = now() WHERE id = {user}",
    "renamed": "UPDATE auth_user SET first_name = 'Ada' WHERE id = {user}",
}


@pytest.fixture
def ids() -> dict[str, int]:
    """Somebody with a role, somebody without one, and a tenant to go to."""
    return {"user": make_person("operator").user_id, "other": make_user().pk, "tenant": make_tenant().pk}


async def heard_after(statement: str, ids: dict[str, int]) -> list[str]:
    """What a listening process hears of a statement by hand, up to a word said after it."""
    async with listening() as heard:
        with sql.connect() as raw:
            raw.execute(statement.format(**ids))
            notify("before")
            await until(lambda: "before" in heard.hints)
            assert heard.hints == ["before"], "not before it commits"
            raw.commit()
        notify("after")
        await until(lambda: "after" in heard.hints)
        return heard.hints[1:-1]


@pytest.mark.parametrize("what", TELLING)
async def test_a_change_of_somebodys_standing_is_told_when_it_commits(ids: dict[str, int], what: str) -> None:
    assert await heard_after(TELLING[what], ids) == ["p"]


@pytest.mark.parametrize("what", SILENT)
async def test_what_changes_nobodys_standing_is_not_told(ids: dict[str, int], what: str) -> None:
    assert await heard_after(SILENT[what], ids) == []


@pytest.fixture
def signed_in(ids: dict[str, int]) -> str:
    """An access token that acts for that somebody."""
    tenant = Tenant.objects.get(membership__user_id=ids["user"])
    person = Client()
    person.force_login(User.objects.get(pk=ids["user"]))
    found: str = Program.of(person, make_application(tenant)[0]).sign_in()["access_token"]
    return found


def remember(token: str) -> None:
    """In a thread with a connection of its own, as a lane has it."""
    try:
        principal_of(token, "")
    finally:
        connection.close()


@pytest.mark.parametrize("what", ["deactivated", "another role", "no role"])
async def test_a_process_that_knows_the_token_looks_anew(ids: dict[str, int], signed_in: str, what: str) -> None:
    async with feeding():
        await asyncio.to_thread(remember, signed_in)
        known = cached_principal(signed_in)
        assert known is not None
        assert "tasks:call" in known.scopes
        with sql.connect(autocommit=True) as raw:
            raw.execute(TELLING[what].format(**ids))
        await until(lambda: cached_principal(signed_in) is None)
        await asyncio.to_thread(remember, signed_in)
        found = cached_principal(signed_in)
        assert (None if found is None else found.scopes) == ({"tasks:read"} if what == "another role" else None)
