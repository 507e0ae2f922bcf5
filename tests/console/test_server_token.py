"""The token that a server behind us wants: stored encrypted, sent along, never shown."""

from __future__ import annotations

import html

import pytest
from django.test import Client

from taskhub.domain.catalogue.sync import SyncedServer, enabled_servers
from taskhub.lib.signing import InvalidToken, Vault
from taskhub.store.models import Event, Server, Tenant
from tests.console.admin import words
from tests.factories import make_server

pytestmark = pytest.mark.django_db

SECRET = "s3cret-Token_of.the~server="
LOST = "Its token was encrypted with another SECRET_KEY and cannot be read: set it again on the server's page."
URL = "https://tools.example.com/mcp"


def added(admin: Client, spec: str = URL, token: str = SECRET) -> Server:
    response = admin.post("/servers/add", {"name": "remote", "spec": spec, "token": token})
    assert response.status_code == 302, words(response.content.decode())
    return Server.objects.get(name="remote")


def row_of(server: Server) -> SyncedServer:
    (found,) = [row for row in enabled_servers() if row.id == server.pk]
    return found


def read(admin: Client, path: str) -> str:
    """What a person reads there."""
    return html.unescape(words(admin.get(path).content.decode()))


def test_the_token_is_sent_to_the_server_and_shown_to_nobody(admin: Client) -> None:
    server = added(admin)
    assert row_of(server).token == SECRET
    assert SECRET not in repr(row_of(server))
    assert SECRET.encode() not in bytes(server.credentials)
    page = admin.get(f"/servers/{server.pk}/?token")
    assert "sent with every request" in words(page.content.decode())
    assert SECRET not in page.content.decode()
    event = Event.objects.filter(action="server.added").latest("id")
    assert event.after["token"] is True
    assert SECRET not in str(event.after)


def test_the_token_is_replaced_and_taken_away(admin: Client) -> None:
    server = added(admin)
    Server.objects.filter(pk=server.pk).update(state="unreachable", problem="401")
    admin.post(f"/servers/{server.pk}/token", {"token": " another "})
    server.refresh_from_db()
    assert (row_of(server).token, server.state, server.problem) == ("another", "unknown", "")
    admin.post(f"/servers/{server.pk}/token", {"token": ""})
    assert row_of(server).token == ""
    changes = Event.objects.filter(action="server.token.changed").order_by("id").values_list("before", "after")
    assert list(changes) == [({"token": True}, {"token": True}), ({"token": True}, {"token": False})]


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "ümlaut", "x" * 4097])
def test_what_cannot_be_a_token_is_refused_and_not_repeated(admin: Client, token: str) -> None:
    response = admin.post("/servers/add", {"name": "remote", "spec": URL, "token": token})
    assert response.status_code == 400
    assert "A token has up to 4,096 characters" in words(response.content.decode())
    assert token not in response.content.decode()
    assert not Server.objects.filter(name="remote").exists()


def test_a_command_gets_no_token(admin: Client, tenant: Tenant) -> None:
    response = admin.post("/servers/add", {"name": "remote", "spec": "stdio:npx server", "token": SECRET})
    assert response.status_code == 400
    assert "Only a server with a URL is sent a token." in words(response.content.decode())
    command = make_server(tenant, "here")
    response = admin.post(f"/servers/{command.pk}/token", {"token": SECRET})
    assert response.status_code == 400
    assert row_of(command).token == ""


def test_another_key_cannot_read_it_and_takes_no_other_server_down(admin: Client, tenant: Tenant) -> None:
    server, other = added(admin), make_server(tenant, "here")
    Server.objects.filter(pk=server.pk).update(credentials=Vault(b"another key").encrypt(SECRET), state="ready")
    assert (row_of(server).token, row_of(server).unusable) == ("", LOST)
    assert (row_of(other).token, row_of(other).unusable) == ("", "")
    with pytest.raises(InvalidToken):
        Vault(b"one").decrypt(Vault(b"two").encrypt(SECRET))


def test_a_token_that_cannot_be_read_is_told_on_the_page_and_in_the_list(admin: Client) -> None:
    """At once, whatever a worker has found before the key was changed."""
    server = added(admin)
    Server.objects.filter(pk=server.pk).update(credentials=Vault(b"another key").encrypt(SECRET), state="ready")
    page = read(admin, f"/servers/{server.pk}/")
    assert "sent with every request" not in page
    assert f"Unreachable {LOST}" in page
    assert "Token cannot be decrypted with this key; nothing is sent to the server Set again" in page
    assert f"Unreachable {LOST}" in read(admin, "/servers/")
    admin.post(f"/servers/{server.pk}/token", {"token": SECRET})
    page = read(admin, f"/servers/{server.pk}/")
    assert "Token sent with every request Replace" in page
    assert LOST not in page
