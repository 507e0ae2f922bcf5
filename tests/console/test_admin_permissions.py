"""Who may open and press what: every URL of the admin pages, every role, one table."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from taskhub.domain.clients.tokens import issue_token
from tests.console.admin import ADMIN, ROLES, browser
from tests.factories import make_context, make_person, make_server, make_tenant, make_tool
from tests.support.undone import undone

pytestmark = pytest.mark.django_db

AUDITORS = {"auditor", "admin"}
CLIENT_READERS = {"operator", "auditor", "admin"}
EVERYBODY = set(ROLES)
ADMINS = {"admin"}

# (url name, its arguments, method, form, who may)
TABLE: list[tuple[str, list[str], str, dict[str, Any], set[str]]] = [
    ("audit-list", [], "get", {}, AUDITORS),
    ("audit-export", [], "get", {"format": "csv"}, AUDITORS),
    ("client-list", [], "get", {}, CLIENT_READERS),
    ("client-detail", ["context"], "get", {}, CLIENT_READERS),
    ("client-connect", [], "get", {}, ADMINS),
    ("token-issue", [], "post", {"client": "x", "scopes": "tasks:call", "days": "1"}, ADMINS),
    ("token-revoke", ["context", "token"], "post", {}, ADMINS),
    ("client-toggle", ["context"], "post", {"disabled": "1"}, ADMINS),
    ("client-waiting", ["context"], "post", {"patience": "10", "hub_tools": ""}, ADMINS),
    ("server-list", [], "get", {}, EVERYBODY),
    ("server-detail", ["server"], "get", {}, EVERYBODY),
    ("server-add", [], "post", {"name": "x", "spec": "https://example.com/mcp"}, ADMINS),
    ("server-import", [], "get", {}, ADMINS),
    ("server-import-read", [], "post", {"text": '{"mcpServers": {"a": {"command": "x"}}}'}, ADMINS),
    ("server-import-add", [], "post", {}, ADMINS),
    ("server-refresh", ["server"], "post", {}, ADMINS),
    ("server-toggle", ["server"], "post", {"enabled": "0"}, ADMINS),
    ("server-token", ["server"], "post", {"token": ""}, ADMINS),
    ("server-try", ["server"], "post", {}, ADMINS),
    ("server-calls", ["server"], "post", {"calls_at_once": "3"}, ADMINS),
    (
        "tool-policy",
        ["server", "tool"],
        "post",
        {
            "enabled": "on",
            "max_attempts": "3",
            "retry_seconds": "1",
            "run_seconds": "9",
            "join_seconds": "9",
        },
        ADMINS,
    ),
    ("rule-list", [], "get", {}, EVERYBODY),
    ("rule-versions", [], "get", {}, EVERYBODY),
    ("rule-add", [], "get", {}, ADMINS),
    ("rule-check", [], "post", {"then": "ask"}, ADMINS),
    ("worker-list", [], "get", {}, EVERYBODY),
    ("settings", [], "get", {}, ADMINS),
    ("person-add", [], "post", {"username": "new.one", "role": "viewer"}, ADMINS),
    ("person-role", ["user"], "post", {"role": "operator"}, ADMINS),
    ("person-disable", ["user"], "post", {}, ADMINS),
    ("person-enable", ["user"], "post", {}, ADMINS),
    ("person-remove", ["user"], "post", {}, ADMINS),
    ("person-password", ["user"], "post", {}, ADMINS),
]


def things(tenant: Any) -> dict[str, int]:
    """One of everything in the tenant."""
    context = make_context(tenant)
    server = make_server(tenant)
    _, token = issue_token(tenant_id=tenant.pk, client=context.subject, actor=ADMIN)
    assert token.context_id == context.pk
    return {
        "context": context.pk,
        "token": token.pk,
        "server": server.pk,
        "tool": make_tool(server).id,
        "user": make_person("viewer", tenant).user_id,
    }


@pytest.mark.parametrize("role", ROLES)
def test_each_role_reaches_exactly_what_the_gate_allows(role: str) -> None:
    tenant = make_tenant()
    ids = things(tenant)
    person = browser(make_person(role, tenant))
    for name, args, method, form, may in TABLE:
        with undone(name):
            response = getattr(person, method)(reverse(name, args=[ids[part] for part in args]), form)
            allowed = response.status_code in (200, 302)
            assert allowed == (role in may), response.status_code
            if not allowed:
                assert response.status_code == 403


def test_a_stranger_is_sent_to_the_sign_in() -> None:
    ids = things(make_tenant())
    for name, args, method, form, _ in TABLE:
        response = getattr(browser(), method)(reverse(name, args=[ids[part] for part in args]), form)
        assert response.status_code == 302, name
        assert "/accounts/login/" in response["Location"], name


def test_what_belongs_to_another_tenant_does_not_exist() -> None:
    foreign = things(make_tenant())
    absent = dict.fromkeys(foreign, 2**70)
    admin = browser(make_person("admin"))
    for name, args, method, form, _ in TABLE:
        for ids in (foreign, absent) if args else ():
            response = getattr(admin, method)(reverse(name, args=[ids[part] for part in args]), form)
            assert response.status_code == 404, (name, ids)


def test_a_change_is_never_a_get() -> None:
    tenant = make_tenant()
    ids = things(tenant)
    admin = browser(make_person("admin", tenant))
    for name, args, method, _, _ in TABLE:
        if method == "post":
            assert admin.get(reverse(name, args=[ids[part] for part in args])).status_code == 405, name


ODD = [
    "\0",
    "%00",
    "x" * 5_000,
    "\ud800",
    "1e99",
    "-1",
    "9" * 30,
    "' OR 1=1 --",
    "%",
    "_",
    "\\",
    "٣",
    "2026-13-45",
    "9999-12-31",
]


READ = {
    "audit-list": (
        ("action", "actor", "task", "door", "address", "since", "until", "text"),
        ("part", "steps"),
        ("before",),
        ("after",),
        ("event",),
    ),
    "client-list": (("q", "state"), ("after", "new")),
    "client-detail": (("revoke", "toggle", "waiting"),),
    "client-connect": (("client",),),
    "server-list": (("new",),),
    "server-detail": (("tool", "all"), ("token", "calls", "toggle")),
    "settings": (("person",), ("person", "do")),
}
"""What each page reads of its address: keys that are asked for together."""


@pytest.mark.parametrize("value", ODD, ids=[repr(value)[:14] for value in ODD])
def test_no_query_string_breaks_a_page(value: str) -> None:
    tenant = make_tenant()
    ids = things(tenant)
    admin = browser(make_person("admin", tenant))
    args = {"client-detail": [ids["context"]], "server-detail": [ids["server"]]}
    for name, asked in READ.items():
        for keys in asked:
            query = {key: value.encode("utf-8", "surrogatepass") for key in keys}
            response = admin.get(reverse(name, args=args.get(name, [])), query)
            assert response.status_code in (200, 400, 404), (name, keys)
