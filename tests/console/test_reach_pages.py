"""What a client may see and call, and who may call a tool."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.core.rules import Rule, Then
from taskhub.core.states import Role
from taskhub.domain.catalogue.view import forget_catalogues
from taskhub.domain.rules.bypasses import begin_bypass, end_bypass
from taskhub.domain.rules.changes import save_rules
from taskhub.store.models import AuthContext, Tenant, Tool
from tests.console.admin import ADMIN, HTMX, words
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db

RULES = [
    Rule(name="No wiping", when="tool.name == 'wipe'", then=Then.HIDE),
    Rule(name="Prod & more", when="tool.name == 'deploy' && args.environment == 'production'", then=Then.ASK),
    Rule(name="Nights", when="tool.name == 'deploy' && time.getHours() < 6", then=Then.DENY),
    Rule(name="Other bots", when="client.name == 'other'", then=Then.DENY),
]


@pytest.fixture
def ruled(tenant: Tenant) -> Tenant:
    """The tenant, with four rules, a server with three tools, and two clients."""
    server = make_server(tenant, "ops")
    for name in ("deploy", "status", "wipe"):
        make_tool(server, name)
    for name in ("ci-bot", "other"):
        make_context(tenant, name)
    save_rules(tenant.pk, RULES, expected=0, actor=ADMIN)
    forget_catalogues()
    return tenant


def client_of(tenant: Tenant, name: str) -> AuthContext:
    return AuthContext.objects.get(tenant=tenant, name=name)


def tool_of(tenant: Tenant, name: str) -> Tool:
    return Tool.objects.select_related("server").get(server__tenant=tenant, name=name)


def callers_of(tool: Tool) -> str:
    return f"/servers/{tool.server_id}/tools/{tool.pk}/callers"


def test_a_clients_page_says_what_it_may_see_and_call(admin: Client, ruled: Tenant) -> None:
    client = client_of(ruled, "ci-bot")
    tool = tool_of(ruled, "deploy")
    for url in (f"/clients/{client.pk}/", f"/clients/{client.pk}/tools"):
        html = admin.get(url).content.decode()
        said = words(html)
        assert (
            "deploy ops Depends on the arguments and the time: Asked by Prod &amp; more Denied by Nights "
            "Allowed if no rule matches" in said
        )
        assert "status ops Allowed no rule matches" in said
        assert "wipe ops Hidden by No wiping" in said
        assert 'href="/rules/edit?rule=Prod%20%26%20more"' in html
        assert f'href="/servers/{tool.server_id}/?tool={tool.pk}#tool"' in html
    said = words(admin.get(f"/clients/{client_of(ruled, 'other').pk}/tools").content.decode())
    assert "status ops Denied by Other bots" in said


def test_a_tools_page_says_who_may_call_it(admin: Client, ruled: Tenant) -> None:
    tool = tool_of(ruled, "status")
    AuthContext.objects.filter(name="other").update(disabled_at="2026-01-01T00:00:00Z")
    for url in (f"/servers/{tool.server_id}/?tool={tool.pk}", callers_of(tool)):
        html = admin.get(url).content.decode()
        said = words(html)
        assert "ci-bot Allowed no rule matches" in said
        assert "other Locked out Denied by Other bots" in said
        assert f'href="/clients/{client_of(ruled, "other").pk}/"' in html
    assert "No client matches." in words(admin.get(f"{callers_of(tool)}?q=zoe").content.decode())
    part = admin.get(f"{callers_of(tool)}?q=ci", headers=HTMX).content.decode()
    assert part.strip().startswith('<div class="stack" id="tool-caller-list"')
    assert "ci-bot" in part
    assert "Locked out" not in part


def test_the_lists_go_on(admin: Client, tenant: Tenant) -> None:
    server = make_server(tenant, "ops")
    tools = [make_tool(server, f"tool-{n:02}") for n in range(51)]
    clients = [make_context(tenant, f"client-{n:02}") for n in range(51)]
    forget_catalogues()
    html = admin.get(f"/clients/{clients[0].pk}/tools").content.decode()
    assert "tool-49" in html
    assert "tool-50" not in html
    assert f'href="?after={tools[49].id}"' in html
    rest = admin.get(f"/clients/{clients[0].pk}/tools?after={tools[49].id}").content.decode()
    assert "tool-50" in rest
    assert "tool-49" not in rest
    assert "First page" in rest
    callers = f"/servers/{server.pk}/tools/{tools[0].id}/callers"
    html = admin.get(callers).content.decode()
    assert f'href="?after={clients[49].pk}"' in html
    assert "client-50" in admin.get(f"{callers}?after={clients[49].pk}").content.decode()
    card = admin.get(f"/clients/{clients[0].pk}/").content.decode()
    assert "tool-09" in card
    assert "tool-10" not in card
    assert f'href="/clients/{clients[0].pk}/tools"' in card
    card = admin.get(f"/servers/{server.pk}/?tool={tools[0].id}").content.decode()
    assert "client-09" in card
    assert "client-10" not in card
    assert f'href="{callers}"' in card


def test_of_a_tool_that_is_not_offered_nobody_may_call_it(admin: Client, ruled: Tenant) -> None:
    tool = tool_of(ruled, "status")
    Tool.objects.filter(pk=tool.pk).update(enabled=False)
    forget_catalogues()
    assert "This tool is not offered to any client" in words(admin.get(callers_of(tool)).content.decode())
    assert "Who may call this tool" not in admin.get(f"/servers/{tool.server_id}/?tool={tool.pk}").content.decode()
    empty = make_context(tenant := ruled, "empty")
    Tool.objects.filter(server__tenant=tenant).update(enabled=False)
    forget_catalogues()
    assert "No server offers a tool yet." in words(admin.get(f"/clients/{empty.pk}/").content.decode())
    assert "No server offers a tool yet." in words(admin.get(f"/clients/{empty.pk}/tools").content.decode())


def test_who_may_not_see_clients_sees_neither(sign_in: Login, ruled: Tenant) -> None:
    client, tool = client_of(ruled, "ci-bot"), tool_of(ruled, "status")
    viewer = sign_in(make_person(Role.VIEWER, ruled))
    for url in (f"/clients/{client.pk}/tools", callers_of(tool)):
        assert viewer.get(url).status_code == 403
    assert "Who may call this tool" not in viewer.get(f"/servers/{tool.server_id}/?tool={tool.pk}").content.decode()
    operator = sign_in(make_person(Role.OPERATOR, ruled))
    html = operator.get(f"/clients/{client.pk}/tools").content.decode()
    assert "/rules/edit" not in html
    assert '<a href="/rules/">No wiping</a>' in html
    other = sign_in(make_person(Role.ADMIN, make_tenant()))
    for url in (f"/clients/{client.pk}/tools", callers_of(tool), f"/clients/{2**70}/tools"):
        assert other.get(url).status_code == 404


def test_both_pages_say_that_a_bypass_is_in_force(admin: Client, ruled: Tenant) -> None:
    tool = Tool.objects.order_by("id").first()
    assert tool is not None
    client = AuthContext.objects.order_by("id").first()
    assert client is not None
    pages = [f"/clients/{client.pk}/tools", callers_of(tool)]
    said = "what would be asked about runs, and nobody is asked, unless its rule calls it critical"
    assert not any(said in words(admin.get(page).content.decode()) for page in pages)
    begun = begin_bypass(ruled.pk, minutes=30, reason="Outage", server_id=tool.server_id, actor=ADMIN)
    assert all(said in words(admin.get(page).content.decode()) for page in pages)
    end_bypass(ruled.pk, begun.id, actor=ADMIN)
    begin_bypass(ruled.pk, minutes=30, reason="Outage", server_id=make_server(ruled, "other").pk, actor=ADMIN)
    named, silent = (words(admin.get(page).content.decode()) for page in pages)
    assert "for calls of other : what" in named or "for calls of other: what" in named
    assert said not in silent
