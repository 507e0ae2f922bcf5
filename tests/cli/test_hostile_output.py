"""What others wrote, on the terminal and in files that people read: spelled as the console shows it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.core.management import call_command
from django.test import Client

from taskhub.domain.clients.principals import default_tenant
from taskhub.lib.signs import invisible, spelled
from taskhub.store.models import Offer, Tenant, Tool
from tests.console.admin import browser
from tests.factories import make_context, make_event, make_person, make_question, make_server, make_task, make_tool
from tests.support.hostile import TABLE, around

pytestmark = pytest.mark.django_db

TEXTS = [around(one.stored) for one in TABLE]


@pytest.fixture
def tenant() -> Tenant:
    """The one that commands are about."""
    return default_tenant()


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    """The browser of an administrator."""
    return browser(make_person("admin", tenant))


def said(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_commands_spell_what_servers_and_tools_say(tenant: Tenant) -> None:
    server = make_server(tenant, "hostile")
    row = {"definition": {}, "digest": "0" * 64}
    Tool.objects.bulk_create(
        Tool(server=server, name=text, exposed_name=text, rejected=text, **row) for text in TEXTS if len(text) < 100
    )
    Offer.objects.bulk_create(
        Offer(server=server, kind="prompt", key=text, exposed_name=text, **row) for text in TEXTS if len(text) < 100
    )
    shown = said("server", "show", "hostile")
    lines = shown.splitlines()
    for text in TEXTS:
        if len(text) < 100:
            # A command's lines are the terminal's: nothing of a text ends one, or begins another.
            assert any(line.startswith(f"  {spelled(text)} (") for line in lines), ascii(text)
    assert not invisible(shown)
    found = json.loads(said("server", "show", "hostile", "--json"))
    assert {tool["exposed_name"] for tool in found["tools"]} == {text for text in TEXTS if len(text) < 100}


def test_commands_spell_what_clients_say(tenant: Tenant) -> None:
    for text in TEXTS[:20]:
        make_task(make_context(tenant, text), state="input_required", question=make_question("outcome"))
    shown = said("outcome", "list")
    assert not invisible(shown)
    assert all(spelled(text) in shown for text in TEXTS[:20])


def test_an_exported_log_can_be_read(tenant: Tenant, admin: Client) -> None:
    for text in TEXTS:
        make_event(tenant, actor=text, target=text, reason=text, after={text: text})
    table = b"".join(admin.get("/audit/export?format=csv&action=thing.done").streaming_content).decode()  # type: ignore[attr-defined]
    assert not invisible(table.replace("\r\n", "\n"))
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["reason"] for row in rows] == [spelled(text) for text in reversed(TEXTS)]
    lines = b"".join(admin.get("/audit/export?format=jsonl&action=thing.done").streaming_content).decode()  # type: ignore[attr-defined]
    assert not invisible(lines)
    assert [json.loads(line)["reason"] for line in lines.splitlines()] == list(reversed(TEXTS))


def test_downloads_of_a_task_are_the_same_json_with_escapes(tenant: Tenant, admin: Client) -> None:
    arguments = {text: text for text in TEXTS}
    result = {"content": [{"type": "text", "text": text} for text in TEXTS]}
    tool = make_tool(make_server(tenant))
    task = make_task(make_context(tenant), tool, state="finished", arguments=arguments, result=result)
    for what, value in (("arguments", arguments), ("result", result)):
        text = admin.get(f"/tasks/{task.public_id}/{what}").content.decode()
        assert not invisible(text)
        assert json.loads(text) == value
