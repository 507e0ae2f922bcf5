"""Servers are imported in the console: a file is read, shown, asked for its secrets, and only then added."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from taskhub.console.forms.imports import MAX_BYTES
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.store.models import Event, Server, ServerGrant, ServerOAuth, Tenant
from tests.console.admin import browser, words
from tests.console.test_server_oauth import come_back, sent
from tests.factories import make_person, make_server
from tests.support.guarded import Guarded

pytestmark = pytest.mark.django_db

FILES = Path(__file__).parents[1] / "support" / "server_files"
VALUE = "sw0rdfish-and-chips"
FILE = json.dumps(
    {
        "inputs": [{"type": "promptString", "id": "org", "description": "Organisation", "password": False}],
        "servers": {
            "files": {"command": "files", "args": ["/srv"], "env": {"KEY": VALUE}, "cwd": "/srv", "timeout": 5},
            "remote": {
                "url": "https://example.com/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}", "X-Org": "${input:org}"},
            },
            "off": {"command": "x", "disabled": True},
        },
    }
)


def read(admin: Client, text: str = FILE) -> str:
    answer = admin.post("/servers/import/read", {"text": text})
    assert answer.status_code == 200, words(answer.content.decode())
    assert VALUE not in answer.content.decode()
    return answer.content.decode()


def hidden(html: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(sealed|way)" value="([^"]*)"', html))


def test_a_file_is_shown_and_nothing_is_stored_before_it_is_added(admin: Client) -> None:
    assert "Paste it" in words(admin.get("/servers/import").content.decode())
    before = Event.objects.count()
    html = read(admin)
    shown = words(html)
    assert "files stdio files /srv variables KEY directory /srv" in shown
    assert "Values that stand in the file, and are stored encrypted: KEY Not kept: timeout" in shown
    assert "remote http https://example.com/mcp a token headers X-Org" in shown
    assert "Left out, since the file disables them: off." in shown
    assert "Add 2 servers" in shown
    assert (Server.objects.count(), Event.objects.count()) == (0, before)
    typed = {"value-0": "t0ken", "value-1": "acme"}
    answer = admin.post("/servers/import/add", {**hidden(html), **typed})
    assert answer.headers["Location"] == "/servers/"
    files, remote = enabled_servers()
    assert (files.target, dict(files.environment), files.directory) == ("files /srv", {"KEY": VALUE}, "/srv")
    assert (remote.token, remote.own_headers) == ("t0ken", (("X-Org", "acme"),))
    assert "Added: files, remote." in words(admin.get("/servers/").content.decode())


def test_it_may_be_uploaded(admin: Client) -> None:
    file = SimpleUploadedFile("mcp.json", FILE.encode())
    answer = admin.post("/servers/import/read", {"text": "", "file": file})
    assert "Add 2 servers" in words(answer.content.decode())
    assert VALUE not in answer.content.decode()


def test_what_is_asked_for_is_typed_without_being_shown_and_asked_for_again(admin: Client) -> None:
    html = read(admin)
    assert '<input type="password" name="value-0"' in html
    assert '<input type="text" name="value-1"' in html
    answer = admin.post("/servers/import/add", {**hidden(html), "value-0": "t0ken-typed", "value-1": ""})
    again = answer.content.decode()
    assert answer.status_code == 400
    assert "A value is needed." in words(again)
    assert "type them again" in words(again)
    assert "t0ken-typed" not in again
    assert hidden(again) == hidden(html)
    assert not Server.objects.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Paste a file or choose one, of at most 65,536 bytes."),
        ("{", "The file is no JSON (line 1)."),
        (json.dumps({"mcpServers": {"a": {"command": "x", "envFile": VALUE}}}), "a: a file of variables is not read"),
        ("x" * (MAX_BYTES + 1), "The file is larger than 65,536 bytes"),
        (json.dumps({"servers": {"a": {"command": "".join(f"${{V{n}}}" for n in range(201))}}}), "more than 200"),
    ],
)
def test_what_is_no_file_is_refused_and_not_sent_back(admin: Client, text: str, said: str) -> None:
    answer = admin.post("/servers/import/read", {"text": text})
    assert (answer.status_code, said in words(answer.content.decode())) == (400, True)
    assert VALUE not in answer.content.decode()


def test_of_two_sources_and_of_one_that_is_no_text_none_is_taken(admin: Client) -> None:
    file = SimpleUploadedFile("mcp.json", b"\xff")
    answer = admin.post("/servers/import/read", {"text": FILE, "file": file})
    assert "Paste a file or choose one" in words(answer.content.decode())
    file = SimpleUploadedFile("mcp.json", b"\xff")
    assert "no UTF-8 text" in words(admin.post("/servers/import/read", {"file": file}).content.decode())


def test_a_name_that_is_taken_is_marked_and_then_refused_with_nothing_added(admin: Client, tenant: Tenant) -> None:
    make_server(tenant, "remote")
    html = read(admin)
    assert "remote Name taken" in words(html)
    assert "rename the server in the file" in words(html)
    answer = admin.post("/servers/import/add", {**hidden(html), "value-0": "t0ken", "value-1": "acme"})
    assert (answer.status_code, Server.objects.count()) == (400, 1)
    assert "There is a server named remote already." in words(answer.content.decode())


def test_what_was_shown_to_somebody_else_or_changed_is_not_added(admin: Client, tenant: Tenant) -> None:
    sealed = hidden(read(admin))["sealed"]
    other = browser(make_person("admin", tenant))
    for client, text in ((other, sealed), (admin, f"x{sealed}"), (admin, "")):
        answer = client.post("/servers/import/add", {"sealed": text}, follow=True)
        assert "give the file again" in words(answer.content.decode())
    assert not Server.objects.exists()


def test_an_entry_of_the_registry_is_added_by_the_way_and_under_the_name_that_are_chosen(admin: Client) -> None:
    html = read(admin, (FILES / "weather.server.json").read_text())
    assert "npx -y @acme/weather-mcp@2.4.1" in words(html)
    assert "By pypi instead" in words(html)
    html = admin.post("/servers/import/add", {**hidden(html), "use": "pypi"}).content.decode()
    assert "uvx weather-mcp-server==2.4.1" in words(html)
    assert hidden(html)["way"] == "pypi"
    form = {**hidden(html), "name": "a b", "value-0": VALUE}
    answer = admin.post("/servers/import/add", form)
    assert "is no name for a server" in words(answer.content.decode())
    assert admin.post("/servers/import/add", {**form, "name": "sky"}).status_code == 302
    (row,) = enabled_servers()
    assert (row.name, row.target) == ("sky", "uvx weather-mcp-server==2.4.1")
    assert dict(row.environment) == {"WEATHER_API_KEY": VALUE}


def test_what_would_be_refused_whatever_is_typed_is_said_with_what_is_shown(admin: Client) -> None:
    wrong = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "oauth": {}}
    text = json.dumps({"servers": {"fine": {"command": "x"}, "it": wrong}})
    before = Event.objects.count()
    shown = words(read(admin, text))
    assert "As it stands, nothing of it can be added. it: The server is sent a token" in shown
    assert (Server.objects.count(), Event.objects.count()) == (0, before)
    assert "As it stands" not in words(read(admin))


def test_a_server_is_authorized_as_its_file_says(admin: Client, settings: LazySettings) -> None:
    settings.TASKHUB_OAUTH_LOCAL_SERVERS = True
    with Guarded() as guarded:
        guarded.account = "ada"
        text = json.dumps({"mcpServers": {"it": {"url": f"{guarded.base}/mcp", "oauth": {"scopes": "tools"}}}})
        html = read(admin, text)
        assert "OAuth, by each person or client scopes tools" in words(html)
        assert admin.post("/servers/import/add", hidden(html)).status_code == 302
        pk = Server.objects.get().pk
        come_back(admin, guarded.answer(sent(admin, f"/servers/{pk}/authorize", {"for": "everyone"})))
    assert ServerGrant.objects.get(server_id=pk).state == "good"
    assert (ServerOAuth.objects.get(server_id=pk).way, ServerOAuth.objects.get(server_id=pk).scopes) == (
        "each",
        "tools",
    )


def test_the_secret_of_a_client_in_the_file_is_asked_for(admin: Client) -> None:
    html = read(admin, json.dumps({"servers": {"it": {"url": "https://example.com/mcp", "oauth": {"clientId": "c"}}}}))
    assert '<input type="password" name="value-0"' in html
    assert "it.clientSecret (optional)" in words(html)
    assert admin.post("/servers/import/add", {**hidden(html), "value-0": VALUE}).status_code == 302
    assert ServerOAuth.objects.get().client_secret is not None
    assert VALUE not in str(list(Event.objects.values_list("after", flat=True)))
