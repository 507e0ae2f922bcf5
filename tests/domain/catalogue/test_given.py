"""Headers, variables, directory and time of a server: checked, stored encrypted, kept and dropped."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.catalogue.given import MAX_PAIRS
from taskhub.domain.catalogue.reads import LOST_GIVEN, server_detail, without_its_secrets
from taskhub.domain.catalogue.spec import unversioned
from taskhub.domain.catalogue.sync import SyncedServer, enabled_servers
from taskhub.domain.catalogue.writes import add_server, edit_server, remove_server, set_server_token
from taskhub.lib.signing import Vault
from taskhub.store.models import Event, Server, Tenant
from tests.domain.catalogue.test_sealed_targets import holding
from tests.factories import WORKER, make_tenant

pytestmark = pytest.mark.django_db

VALUE = "sw0rdfish-and-chips"
URL = "https://tools.example.com/mcp"
COMMAND = "stdio:npx -y @acme/server@1.2.3 --stdio"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def add(tenant: Tenant, spec: str, **given: Any) -> int:
    return add_server(tenant_id=tenant.pk, name="acme", spec=spec, actor=WORKER, **given)


def edit(tenant: Tenant, server: int, **changes: Any) -> None:
    edit_server(tenant_id=tenant.pk, server_id=server, edit=ServerEdit(**changes), actor=WORKER)


def wanted() -> SyncedServer:
    (row,) = enabled_servers()
    assert VALUE not in repr(row)
    return row


def latest(action: str) -> Event:
    return Event.objects.filter(action=action).latest("id")


def test_the_worker_gets_them_and_no_row_has_a_value(tenant: Tenant) -> None:
    server = add(tenant, URL, headers={"X-Api-Key": f" {VALUE} ", "X-Org": "acme"}, token="t0ken", connect_seconds=30)
    assert dict(wanted().headers) == {"X-Api-Key": VALUE, "X-Org": "acme", "Authorization": "Bearer t0ken"}
    assert wanted().connect_seconds == 30
    assert latest("server.added").after["headers"] == ["X-Api-Key", "X-Org"]
    row = server_detail(tenant.pk, server)
    assert row is not None
    assert (row.header_names, row.variable_names) == (("X-Api-Key", "X-Org"), ())
    edit(tenant, server, headers={"X-Org": None, "X-Key": VALUE})
    assert dict(wanted().headers) == {"X-Org": "acme", "X-Key": VALUE, "Authorization": "Bearer t0ken"}
    changed = latest("server.headers.changed")
    assert (changed.before, changed.after) == (
        {"headers": ["X-Api-Key", "X-Org"]},
        {"headers": ["X-Key", "X-Org"], "given": ["X-Key"]},
    )
    assert holding(VALUE) == []
    remove_server(tenant_id=tenant.pk, server_id=server, actor=WORKER)
    assert latest("server.removed").before["headers"] == ["X-Key", "X-Org"]
    assert Server.objects.get(pk=server).headers == {}


def test_a_command_has_variables_and_a_directory(tenant: Tenant) -> None:
    server = add(tenant, COMMAND, environment={"KEY": VALUE, "LEVEL": "debug"}, directory="/srv/notes")
    assert dict(wanted().environment) == {"KEY": VALUE, "LEVEL": "debug"}
    assert wanted().directory == "/srv/notes"
    before = Event.objects.count()
    edit(tenant, server, environment={"KEY": VALUE, "LEVEL": None}, directory="/srv/notes", connect_seconds=0)
    assert Event.objects.count() == before, "that is what it has already"
    edit(tenant, server, directory="", connect_seconds=90)
    assert latest("server.changed").after == {"directory": "", "connect_seconds": 90}
    assert holding(VALUE) == []
    text = without_its_secrets(Server.objects.get(pk=server), f"no {VALUE} in debug")
    assert text == "no ••• in debug"


def test_they_belong_to_the_address_or_the_command(tenant: Tenant) -> None:
    server = add(tenant, COMMAND, environment={"KEY": VALUE})
    edit(tenant, server, spec="stdio:npx -y @acme/server@1.3.0 --stdio")
    assert dict(wanted().environment) == {"KEY": VALUE}, "another version of the same"
    with pytest.raises(Invalid, match=r"^Give a value for KEY\.$") as refused:
        edit(tenant, server, spec="stdio:npx -y @other/server@1.3.0 --stdio", environment={"KEY": None})
    assert refused.value.data["field"] == "environment"
    before = server_detail(tenant.pk, server)
    edit(tenant, server, spec="stdio:printenv")
    assert wanted().environment == ()
    after = server_detail(tenant.pk, server)
    assert before is not None
    assert after is not None
    assert ServerEdit(spec="stdio:printenv").dropped(before, after) == ("variable KEY",)
    edit(tenant, server, spec=URL, headers={"X-Key": VALUE}, directory="")
    edit(tenant, server, spec=f"{URL}2")
    assert wanted().headers == ()


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("npx -y @a/b@1.2.3", "npx -y @a/b@2.0.0-rc.1", True),
        ("npx -y @a/b", "npx -y @a/b@2", True),
        ("uvx a==1.0", "uvx a==1.1", True),
        ("docker run -i a/b:1.2", "docker run -i a/b:v2", True),
        ("npx -y @a/b@1", "npx -y @a/c@1", False),
        ("x --to https://a.example:80", "x --to https://a.example:81", False),
        ("x", "x -v", False),
    ],
)
def test_which_commands_differ_in_a_version_only(one: str, other: str, alike: bool) -> None:
    assert (unversioned(one) == unversioned(other)) is alike


def test_a_token_and_a_header_authorization_exclude_each_other(tenant: Tenant) -> None:
    server = add(tenant, URL, headers={"authorization": "Basic YTpi"})
    with pytest.raises(Invalid, match="one of them, not both"):
        set_server_token(tenant_id=tenant.pk, server_id=server, token="t0ken", actor=WORKER)
    edit(tenant, server, headers={}, token="t0ken")
    assert wanted().headers == (("Authorization", "Bearer t0ken"),)
    with pytest.raises(Invalid, match="one of them, not both"):
        edit(tenant, server, headers={"Authorization": "Basic YTpi"})
    edit(tenant, server, headers={"Authorization": "Basic YTpi"}, token="")
    assert wanted().headers == (("Authorization", "Basic YTpi"),)


@pytest.mark.parametrize(
    ("spec", "given", "why"),
    [
        (COMMAND, {"headers": {"A": VALUE}}, "Only a server with a URL is sent headers"),
        (URL, {"environment": {"A": VALUE}}, "Only a command is given variables"),
        (URL, {"directory": "/srv"}, "Only a command has a working directory"),
        (COMMAND, {"directory": "srv"}, "A working directory is a full path"),
        (COMMAND, {"directory": "/" + "x" * 1_000}, "A working directory is a full path"),
        (URL, {"connect_seconds": 121}, "From 1 to 120"),
        (URL, {"headers": {"A": f"{VALUE}\r\nB: c"}}, "The value of the header A has"),
        (URL, {"headers": {"A": "ü"}}, "The value of the header A has"),
        (URL, {"headers": {"A": " "}}, "The value of the header A has"),
        (URL, {"headers": {"A": None}}, "Give a value for A"),
        (URL, {"headers": {"": "b"}}, "'' is no name of a header"),
        (URL, {"headers": {"Content-Type": "b"}}, "set by TaskHub itself"),
        (COMMAND, {"environment": {"1A": VALUE}}, "'1A' is no name of a variable"),
        (COMMAND, {"environment": {"A": "\ud800"}}, "The value of the variable A is text"),
        (COMMAND, {"environment": {"A": "x" * 32_769}}, "The value of the variable A is text"),
        (COMMAND, {"environment": {f"A{n}": "" for n in range(MAX_PAIRS + 1)}}, "at most 50 variables"),
    ],
)
def test_what_cannot_be_given_is_refused_and_not_repeated(
    tenant: Tenant, spec: str, given: dict[str, Any], why: str
) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        add(tenant, spec, **given)
    assert refused.value.data["field"] in given
    assert VALUE not in refused.value.message
    assert not Server.objects.exists()


def test_another_key_cannot_read_them_and_that_is_told(tenant: Tenant) -> None:
    server = add(tenant, COMMAND, environment={"KEY": VALUE, "LEVEL": "debug"})
    row = Server.objects.get(pk=server)
    row.environment["KEY"] = Vault(b"another key").encrypt(VALUE).decode()
    row.save()
    assert (wanted().environment, wanted().unusable) == ((), LOST_GIVEN)
    shown = server_detail(tenant.pk, server)
    assert shown is not None
    assert (shown.shown_state, shown.problem) == ("unreachable", LOST_GIVEN)
    edit(tenant, server, environment={"KEY": VALUE, "LEVEL": None})
    assert dict(wanted().environment) == {"KEY": VALUE, "LEVEL": "debug"}


def test_the_database_holds_the_rules_too(tenant: Tenant) -> None:
    server = add(tenant, COMMAND)
    for columns in ({"headers": {"A": "b"}}, {"connect_seconds": 0}, {"transport": "http", "directory": "/srv"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Server.objects.filter(pk=server).update(**columns)
