"""A token is refused as soon as the person behind it may not do that any more, also where it was just used."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from dataclasses import dataclass

import httpx2
import pytest

from tests.clients.sdk_oauth import CALLBACK, Person, register
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

SOON = 5.0
"""Seconds; what a process knows of a token it keeps for thirty."""


@dataclass(frozen=True)
class SignedIn:
    """Somebody of this test alone, and a token that acts for them."""

    user_id: int
    token: str


def make_operator(hub: RunningHub) -> tuple[int, str, str]:
    """Another operator with the password of the first: the id, the name and the password."""
    known = json.loads((hub.data / "credentials.json").read_text())["users"]["operator"]
    name = f"operator-{secrets.token_hex(4)}"
    ((user_id,),) = hub.sql(
        "INSERT INTO auth_user (username, password, is_active, is_staff, is_superuser, first_name, last_name, email,"
        " date_joined) SELECT %s, password, true, false, false, '', '', '', now() FROM auth_user WHERE username = %s"
        " RETURNING id",
        [name, known["username"]],
    )
    hub.sql(
        "INSERT INTO membership (tenant_id, user_id, role, groups) SELECT tenant_id, %s, role, groups FROM membership"
        " JOIN auth_user u ON u.id = user_id WHERE u.username = %s",
        [user_id, known["username"]],
    )
    return user_id, name, known["password"]


async def _token(hub: RunningHub, name: str, password: str) -> str:
    users = json.loads((hub.data / "credentials.json").read_text())["users"]
    admin = Person(hub.base, users["admin"]["username"], users["admin"]["password"])
    person = Person(hub.base, name, password)
    await admin.sign_in()
    await person.sign_in()
    program = await register(admin, f"Standing {secrets.token_hex(4)}")
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": str(program.client_id),
        "redirect_uri": CALLBACK,
        "scope": "tasks:call tasks:read",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    await person.open(f"{hub.base}/oauth/authorize?{httpx2.QueryParams(query)}")
    form = {
        "grant_type": "authorization_code",
        "code": person.brought["code"],
        "redirect_uri": CALLBACK,
        "code_verifier": verifier,
        "client_id": str(program.client_id),
        "client_secret": str(program.client_secret),
    }
    answer = await person.http.post("/oauth/token", data=form)
    assert answer.status_code == 200, answer.text
    for somebody in (admin, person):
        await somebody.http.aclose()
    return str(answer.json()["access_token"])


@pytest.fixture
def signed_in(hub: RunningHub) -> SignedIn:
    user_id, name, password = make_operator(hub)
    return SignedIn(user_id, asyncio.run(_token(hub, name, password)))


@pytest.mark.parametrize(
    "statement",
    ["UPDATE auth_user SET is_active = false WHERE id = %s", "DELETE FROM membership WHERE user_id = %s"],
)
def test_who_is_shut_out_by_hand_is_out_at_once(hub: RunningHub, signed_in: SignedIn, statement: str) -> None:
    with Client(hub.base, signed_in.token) as client:
        assert client.tool("greet", {"name": "Ada"}).text == "Hello, Ada!"
        hub.sql(statement, [signed_in.user_id])
        wait_until(lambda: client.call("server/discover").status == 401, "the token to be refused", SOON)


def test_a_lesser_role_counts_at_once(hub: RunningHub, signed_in: SignedIn) -> None:
    with Client(hub.base, signed_in.token) as client:
        assert client.tool("greet", {"name": "Ada"}).status == 200
        hub.sql("UPDATE membership SET role = 'viewer' WHERE user_id = %s", [signed_in.user_id])
        wait_until(lambda: client.tool("greet", {"name": "Ada"}).status == 403, "the call to be refused", SOON)
        assert client.call("server/discover").status == 200


def test_who_is_let_in_again_goes_on(hub: RunningHub, signed_in: SignedIn) -> None:
    with Client(hub.base, signed_in.token) as client:

        def status() -> int:
            return client.call("server/discover").status

        hub.sql("UPDATE auth_user SET is_active = false WHERE id = %s", [signed_in.user_id])
        wait_until(lambda: status() == 401, "the token to be refused", SOON)
        hub.sql("UPDATE auth_user SET is_active = true WHERE id = %s", [signed_in.user_id])
        wait_until(lambda: status() == 200, "the token to be good again", SOON)
