"""Secrets in the command or address of a server: the database has them encrypted, however the server came to it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import override_settings

from taskhub.core.errors import Refused
from taskhub.core.secrets import redacted, without_secrets
from taskhub.domain.catalogue.breakers import OPENS_AFTER, store_failure
from taskhub.domain.catalogue.reads import server_list
from taskhub.domain.catalogue.sync import connect_server, enabled_servers, store_problem
from taskhub.domain.catalogue.writes import add_server
from taskhub.store.models import Event, Server, Tenant
from tests.console.admin import browser
from tests.factories import WORKER, make_person, make_tenant

pytestmark = pytest.mark.django_db

VALUE = "sw0rdfish-and-chips"
TARGETS = {
    "environment": ("stdio", f"env API_TOKEN={VALUE} LEVEL=debug npx -y @acme/server"),
    "environment without a telling name": ("stdio", f"env -i GITHUB_PAT={VALUE} LEVEL=debug npx -y @acme/server"),
    "environment of a container": ("stdio", f"docker run -i --rm -e GITHUB_PAT={VALUE} ghcr.example/server"),
    "its long option": ("stdio", f"docker run -i --env=PIN={VALUE} --env LEVEL=debug ghcr.example/server"),
    "option": ("stdio", f"npx -y @acme/server --api-key {VALUE}"),
    "option with a sign": ("stdio", f"npx -y @acme/server --token={VALUE}"),
    "header": ("stdio", f"npx -y mcp-remote https://a.example/mcp --header 'Authorization: Bearer {VALUE}'"),
    "address in a command": ("stdio", f"npx -y pg-server postgres://ada:{VALUE}@db.example/notes"),
    "address in its environment": ("stdio", f"env DATABASE_URL=postgres://ada:{VALUE}@db.example/notes server"),
    "parameter": ("http", f"https://a.example/mcp?api_key={VALUE}&org=acme"),
    "fragment": ("http", f"https://a.example/mcp#access_token={VALUE}"),
    "password": ("http", f"https://ada:{VALUE}@a.example/mcp"),
}


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def spec(transport: str, target: str) -> str:
    return target if transport == "http" else f"{transport}:{target}"


def holding(value: str) -> list[str]:
    """The tables in which `value` stands in any row, as text or as bytes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(relname) FROM pg_class"
            " WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        )
        found = []
        for (table,) in cursor.fetchall():
            cursor.execute(
                f"SELECT EXISTS (SELECT FROM {table} t WHERE t::text LIKE %s OR t::text LIKE %s)",
                [f"%{value}%", f"%{value.encode().hex()}%"],
            )
            if cursor.fetchone() == (True,):
                found.append(table)
        return found


def wanted(name: str) -> str:
    """The target that a worker connects to."""
    (row,) = [row for row in enabled_servers() if row.name == name]
    assert VALUE not in repr(row)
    return row.target


@pytest.mark.parametrize(("transport", "target"), TARGETS.values(), ids=TARGETS)
def test_no_row_of_any_table_holds_the_value_and_the_worker_gets_it(
    tenant: Tenant, transport: str, target: str
) -> None:
    admin = browser(make_person("admin", tenant))
    assert admin.post("/servers/add", {"name": "form", "spec": spec(transport, target)}).status_code == 302
    add_server(tenant_id=tenant.pk, name="added", spec=spec(transport, target), actor=WORKER)
    named = {"tenant_id": tenant.pk, "name": "line", "transport": transport, "actor": WORKER}
    line = connect_server(target=target, **named)
    for problem in (f"cannot reach {target}", f"refused {VALUE}"):
        store_problem(line, problem)
        for _ in range(OPENS_AFTER):
            store_failure(line, problem, probing=False)
    assert [wanted(name) for name in ("form", "added", "line")] == [target] * 3
    assert holding(VALUE) == []
    assert Event.objects.filter(tenant=tenant, action="server.unreachable").exists()
    connect_server(target="nothing" if transport == "stdio" else "https://b.example/mcp", **named)
    assert Event.objects.filter(tenant=tenant, action="server.changed").exists()
    assert holding(VALUE) == []
    assert all(VALUE not in admin.get(page).content.decode() for page in ("/servers/", f"/servers/{line}/", "/audit/"))


def test_a_target_without_secrets_is_stored_as_it_was_given(tenant: Tenant) -> None:
    for name, transport, target in (
        ("command", "stdio", "npx  -y '@acme/server'   /srv"),
        ("address", "http", "https://a.example/mcp?q=a%20b"),
    ):
        add_server(tenant_id=tenant.pk, name=name, spec=spec(transport, target), actor=WORKER)
        found = Server.objects.get(tenant=tenant, name=name)
        assert (found.target, found.sealed_target) == (target, None)


@pytest.mark.parametrize(("transport", "target"), TARGETS.values(), ids=TARGETS)
def test_what_is_shown_stays_the_same_when_it_is_redacted_again(transport: str, target: str) -> None:
    shown = redacted(transport, target)
    assert VALUE not in shown
    assert redacted(transport, shown) == shown
    assert VALUE not in without_secrets(f"bad {VALUE}: {target}", transport, target)


def test_a_word_that_is_the_value_of_a_variable_stays_in_other_texts() -> None:
    target = "env LEVEL=debug PIN=1234 npx -y @acme/server"
    assert redacted("stdio", target) == "env LEVEL=••• PIN=••• npx -y @acme/server"
    assert without_secrets("debug: asked 1234 times, with LEVEL=debug", "stdio", target) == (
        "debug: asked 1234 times, with •••"
    )


def test_the_same_command_line_finds_its_server_and_another_value_is_another_target(tenant: Tenant) -> None:
    _, target = TARGETS["environment"]
    other = target.replace(VALUE, "another-value")

    def connect(target: str, *, named: bool) -> int:
        return connect_server(
            tenant_id=tenant.pk, name="acme", transport="stdio", target=target, actor=WORKER, named=named
        )

    first = connect(target, named=False)
    assert connect(target, named=False) == connect(target, named=True) == first
    assert not Event.objects.filter(tenant=tenant, action="server.changed").exists()
    with pytest.raises(Refused) as refused:
        connect(other, named=False)
    assert VALUE not in str(refused.value)
    assert "another-value" not in str(refused.value)
    assert connect(other, named=True) == first
    assert wanted("acme") == other


@pytest.mark.parametrize("named", [False, True])
def test_under_another_key_it_is_not_started_says_why_and_is_set_again(tenant: Tenant, named: bool) -> None:
    _, target = TARGETS["environment"]

    def connect() -> int:
        return connect_server(
            tenant_id=tenant.pk, name="acme", transport="stdio", target=target, actor=WORKER, named=named
        )

    first = connect()
    with override_settings(SECRET_KEY="another key, of more than 32 characters"):
        (row,) = [row for row in enabled_servers() if row.name == "acme"]
        (shown,) = server_list(tenant.pk)
        assert row.unusable == shown.problem
        assert "encrypted with another SECRET_KEY and cannot be read: give the whole of it again" in row.unusable
        assert shown.state == "unreachable"
        assert connect() == first
        assert wanted("acme") == target
        assert server_list(tenant.pk)[0].problem == ""
