"""A server that is left to a file of configuration: its page says so, and changes it only when somebody wants it to."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.control.caller import Caller, of_shell
from taskhub.control.configuration import apply_configuration
from taskhub.core.records import ToolRecord
from taskhub.store.models import Event, Server, ServerOAuth, Tenant, Tool
from tests.console.admin import words
from tests.console.conftest import Login
from tests.factories import make_person, make_tool

pytestmark = pytest.mark.django_db

FILE = """\
format: 1
servers:
  - name: acme
    spec: https://acme.example/mcp
    by_file: true
"""
SAID = "A file of configuration has this server and the policies of its tools: they are changed there."


def apply(tenant: Tenant, text: str = FILE) -> tuple[str, ...]:
    by = Caller(tenant.pk, of_shell().actor)
    return apply_configuration(by, text, lookup=lambda kind, name: "s3cret", prune=True).changes


@pytest.fixture
def server(tenant: Tenant) -> Server:
    assert apply(tenant) == ("server acme: added, https://acme.example/mcp, by_file true",)
    return Server.objects.get(tenant=tenant)


@pytest.fixture
def tool(server: Server) -> ToolRecord:
    return make_tool(server, "deploy")


def test_its_page_shows_no_form_and_says_why(
    admin: Client, sign_in: Login, tenant: Tenant, server: Server, tool: ToolRecord
) -> None:
    page = f"/servers/{server.pk}/"
    for query in ("", "?edit", "?remove", "?token", "?oauth", "?calls", f"?tool={tool.id}"):
        html = admin.get(f"{page}{query}").content.decode()
        assert SAID in words(html)
        for form in ("edit", "remove", "token", "oauth", "calls", f"tools/{tool.id}/policy"):
            assert f'action="{page}{form}' not in html
        assert f'action="{page}release"' in html
        assert f'action="{page}refresh"' in html
    html = sign_in(make_person("operator", tenant)).get(page).content.decode()
    assert SAID in words(html)
    assert "release" not in html


def test_what_is_sent_all_the_same_is_refused(admin: Client, server: Server, tool: ToolRecord) -> None:
    page, before = f"/servers/{server.pk}/", list(Event.objects.values_list("id", flat=True))
    policy = {"max_attempts": 2, "run_seconds": 5, "join_seconds": 5, "retry_seconds": 1}
    for form, typed in (
        ("edit", {"spec": "https://other.example/mcp", "prefix": "", "calls_at_once": ""}),
        ("remove", {}),
        ("token", {"token": "t0ken"}),
        ("calls", {"calls_at_once": "3"}),
        ("oauth", {"way": "each"}),
        (f"tools/{tool.id}/policy", policy),
    ):
        answer = admin.post(f"{page}{form}", typed)
        assert answer.status_code == 409, form
        assert "acme is left to a file of configuration" in words(answer.content.decode())
    assert list(Event.objects.values_list("id", flat=True)) == before
    assert not ServerOAuth.objects.exists()
    assert Tool.objects.get().max_attempts == 3


def test_it_can_still_be_stopped(admin: Client, server: Server) -> None:
    assert admin.post(f"/servers/{server.pk}/toggle", {"enabled": "0"}).status_code == 302
    assert not Server.objects.get().enabled


def test_it_is_taken_out_of_the_hands_of_the_file_until_that_is_applied_again(
    admin: Client, tenant: Tenant, server: Server
) -> None:
    page = f"/servers/{server.pk}/"
    assert admin.post(f"{page}release").status_code == 302
    event = Event.objects.latest("id")
    assert (event.action, event.before, event.after) == ("server.changed", {"by_file": True}, {"by_file": False})
    html = admin.get(page).content.decode()
    assert SAID not in words(html)
    assert admin.post(f"{page}calls", {"calls_at_once": "3"}).status_code == 302
    assert apply(tenant) == ("server acme: by_file true (was false), calls_at_once default (was 3)",)
    assert apply(tenant) == ()
    assert apply(tenant, FILE.replace("    by_file: true\n", "")) == ("server acme: by_file false (was true)",)
