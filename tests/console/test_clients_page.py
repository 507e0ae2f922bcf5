"""Clients: what they declare, and tokens that are shown once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from taskhub.core.names import SCOPES, TASKS_EXTENSION
from taskhub.domain.catalogue.view import catalogue
from taskhub.domain.clients.principals import forget_principals, principal_of
from taskhub.domain.clients.tokens import issue_token
from taskhub.lib import ids
from taskhub.store.models import AccessToken, AuthContext, Event, Session, Task, Tenant
from tests.console.admin import ADMIN, HTMX, browser, words
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db
MODERN = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    return browser(make_person("admin", tenant))


def token_in(html: str) -> str:
    found = re.search(r'<code id="token"[^>]*>([^<]+)</code>', html)
    assert found
    return found[1]


def issue(admin: Client, **form: Any) -> Any:
    data = {"client": "ci", "scopes": list(SCOPES), "days": "30", "once": "once-1", **form}
    return admin.post("/clients/issue", data)


def test_a_token_works_and_is_shown_on_one_response_only(tenant: Tenant, admin: Client) -> None:
    response = issue(admin)
    token = token_in(response.content.decode())
    principal = principal_of(token, "192.0.2.1")
    assert principal is not None
    assert (principal.name, principal.scopes) == ("ci", frozenset(SCOPES))
    assert "no-store" in response["Cache-Control"]
    context = AuthContext.objects.get(tenant=tenant, name="ci")
    connect = ("/clients/connect", f"/clients/connect?client={context.pk}")
    for url in ("/clients/", f"/clients/{context.pk}/", "/clients/?new", f"/audit/?text={token[:10]}", *connect):
        page = admin.get(url).content.decode()
        assert token not in page
    row = AccessToken.objects.get(context=context)
    assert bytes(row.digest) == ids.digest(token)
    assert token not in str(list(Event.objects.values()))
    assert token not in str(list(admin.session.items()))


def test_the_forms_as_they_are_drawn_issue_tokens(tenant: Tenant, admin: Client) -> None:
    def drawn(url: str) -> dict[str, Any]:
        html = admin.get(url).content.decode()
        form = html[html.index('action="/clients/issue"') :]
        data: dict[str, Any] = {}
        for tag in re.findall(r"<input[^>]*>", form[: form.index("</form>")]):
            name, value = re.search(r'name="(\w+)"', tag), re.search(r'value="([^"]*)"', tag)
            if name and ("checkbox" not in tag or "checked" in tag):
                data.setdefault(name[1], []).append(value[1] if value else "")
        return data

    first = admin.post("/clients/issue", {**drawn("/clients/?new"), "client": "ci"})
    assert token_in(first.content.decode())
    context = AuthContext.objects.get(tenant=tenant, name="ci")
    second = drawn(f"/clients/{context.pk}/")
    assert "client" not in second
    assert token_in(admin.post("/clients/issue", second).content.decode())
    assert AccessToken.objects.filter(context=context).count() == 2


def test_reloading_the_page_makes_no_second_token(tenant: Tenant, admin: Client) -> None:
    first = token_in(issue(admin).content.decode())
    again = issue(admin)
    assert again.status_code == 302
    assert first not in admin.get(again["Location"]).content.decode()
    assert AccessToken.objects.filter(context__tenant=tenant).count() == 1
    assert issue(admin, once="once-2").status_code == 200


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"client": " "}, "needs a name"),
        ({"client": "x" * 129}, "needs a name"),
        ({"scopes": []}, "at least one scope"),
        ({"scopes": ["root"]}, "at least one scope"),
        ({"days": "0"}, "1 to 3650 days"),
        ({"days": "lots"}, "1 to 3650"),
        ({"client": "a\0b"}, "cannot hold such characters"),
    ],
)
def test_a_form_that_is_wrong_comes_back_with_the_reason(
    tenant: Tenant, admin: Client, form: dict[str, Any], why: str
) -> None:
    response = issue(admin, **form)
    assert response.status_code == 400
    assert why in words(response.content.decode())
    assert not AccessToken.objects.filter(context__tenant=tenant).exists()


def test_a_client_of_another_issuer_gets_no_token_here(tenant: Tenant, admin: Client) -> None:
    foreign = AuthContext.objects.create(tenant=tenant, issuer="https://login.example", subject="s", name="agent")
    assert issue(admin, context=str(foreign.pk)).status_code == 400
    assert not AccessToken.objects.exists()
    assert 'id="issue"' not in admin.get(f"/clients/{foreign.pk}/").content.decode()


@pytest.mark.parametrize("context", ["²", "x", "9" * 5_000])
def test_what_is_no_number_names_no_client(admin: Client, context: str) -> None:
    assert issue(admin, context=context, client="ci").status_code == 400
    assert not AccessToken.objects.exists()


def test_a_further_token_goes_to_the_same_client_whatever_its_name(tenant: Tenant, admin: Client) -> None:
    context = make_context(tenant, "deployer")
    AuthContext.objects.filter(pk=context.pk).update(name="Renamed")
    assert issue(admin, context=str(context.pk), client="").status_code == 200
    assert AccessToken.objects.get().context_id == context.pk
    assert AuthContext.objects.filter(tenant=tenant).count() == 1


def test_revoking_asks_first_and_then_counts_at_once(tenant: Tenant, admin: Client) -> None:
    token, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ADMIN)
    url = f"/clients/{row.context_id}/"
    asked = words(admin.get(url, {"revoke": row.pk}).content.decode())
    assert f"Revoke the token {row.prefix}" in asked
    assert principal_of(token, "") is not None
    admin.post(f"{url}tokens/{row.pk}/revoke", {"tasks": "keep"})
    forget_principals()
    assert principal_of(token, "") is None
    assert "Revoked" in words(admin.get(url).content.decode())
    assert Event.objects.filter(tenant=tenant, action="token.revoked").count() == 1


@pytest.mark.parametrize(("choice", "state"), [("keep", "queued"), ("cancel", "cancelled")])
def test_locking_out_keeps_or_stops_the_clients_tasks_as_chosen(
    tenant: Tenant, admin: Client, choice: str, state: str
) -> None:
    token, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ADMIN)
    mine = make_task(row.context)
    other = make_task(make_context(tenant))
    page = words(admin.get(f"/clients/{row.context_id}/?toggle").content.decode())
    assert "1 of its tasks has not ended" in page
    admin.post(f"/clients/{row.context_id}/toggle", {"disabled": "1", "tasks": choice})
    assert principal_of(token, "") is None
    assert Task.objects.get(pk=mine.id).state == state
    assert Task.objects.get(pk=other.id).state == "queued"
    admin.post(f"/clients/{row.context_id}/toggle", {"disabled": "0"})
    assert principal_of(token, "") is not None


def test_a_token_is_revoked_through_its_own_client_only(tenant: Tenant, admin: Client) -> None:
    _, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ADMIN)
    other = make_context(tenant)
    assert admin.post(f"/clients/{other.pk}/tokens/{row.pk}/revoke").status_code == 404
    assert AccessToken.objects.get(pk=row.pk).revoked_at is None


def test_what_a_client_declares_is_read_from_its_calls(tenant: Tenant, admin: Client) -> None:
    modern, plain, silent = (make_context(tenant, name) for name in ("modern", "plain", "silent"))
    tool = make_tool(make_server(tenant))
    make_task(modern, tool, client_info={"name": "sdk", "version": "2.1"}, client_capabilities=MODERN)
    make_task(modern, tool)  # one call without does not make it "never"
    make_task(plain, tool, client_capabilities={"tasks": {}})
    page = admin.get("/clients/").content.decode()
    rows = {name: words(row) for name, row in re.findall(r'row-link"[^>]*>(\w+)</a>(.*?)</tr>', page, re.DOTALL)}
    assert "sdk 2.1" in rows["modern"]
    assert "no tasks" not in rows["modern"]
    assert "elicitation" in rows["modern"]
    assert (
        "Never declares the tasks extension: its calls wait, and tools in mode “required” are not listed"
        in rows["plain"]
    )
    assert "has not called yet" in rows["silent"]
    assert "never declares the tasks extension" in words(admin.get(f"/clients/{plain.pk}/").content.decode())
    assert "never declares the tasks extension" not in words(admin.get(f"/clients/{modern.pk}/").content.decode())
    assert silent.pk


def test_the_list_is_narrowed_and_paged_by_the_url(tenant: Tenant, admin: Client) -> None:
    for number in range(60):
        make_context(tenant, f"agent-{number:02}")
    page = admin.get("/clients/").content.decode()
    assert page.count('class="row-link"') == 50
    more = re.search(r'href="(\?after=\d+)"', page)
    assert more
    rest = admin.get("/clients/" + more[1]).content.decode()
    assert re.findall(r'row-link"[^>]*>([\w-]+)<', rest) == [f"agent-{number:02}" for number in range(50, 60)]
    found = admin.get("/clients/", {"q": "AGENT-07"}).content.decode()
    assert found.count('class="row-link"') == 1
    assert admin.get("/clients/", {"state": "disabled"}).content.decode().count('class="row-link"') == 0


def test_an_operator_sees_clients_and_no_buttons(tenant: Tenant) -> None:
    _, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ADMIN)
    operator = browser(make_person("operator", tenant))
    for url in (
        "/clients/",
        "/clients/?new",
        f"/clients/{row.context_id}/?revoke={row.pk}",
        f"/clients/{row.context_id}/?toggle",
    ):
        page = operator.get(url).content.decode()
        assert "token-issue" not in page
        assert "/issue" not in page
        assert "/revoke" not in page
        assert "/toggle" not in page
        assert "/clients/connect" not in page


def test_the_partial_is_the_list_alone(tenant: Tenant, admin: Client) -> None:
    make_context(tenant, "agent")
    part = admin.get("/clients/", headers=HTMX).content.decode()
    assert "agent" in part
    assert "<html" not in part


def test_as_many_queries_for_thirty_clients_as_for_one(tenant: Tenant, admin: Client) -> None:
    def queries(url: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin.get(url).status_code == 200
        return len(captured)

    _, row = issue_token(tenant_id=tenant.pk, client="one", actor=ADMIN)
    detail = f"/clients/{row.context_id}/"
    catalogue(tenant.pk)  # in memory, as it mostly is
    one, one_detail = queries("/clients/"), queries(detail)
    for number in range(30):
        issue_token(tenant_id=tenant.pk, client=f"c{number}", actor=ADMIN)
        issue_token(tenant_id=tenant.pk, client="one", actor=ADMIN)
    assert (queries("/clients/"), queries(detail)) == (one, one_detail)
    assert one <= 7
    assert one_detail <= 11


def test_the_page_tells_how_each_program_of_a_client_speaks(tenant: Tenant, admin: Client) -> None:
    context = make_context(tenant, "busy")
    make_task(context, client_info={"name": "fast", "version": "4"}, client_capabilities=MODERN)
    Session.objects.create(
        public_id="s" * 43,
        tenant=tenant,
        context=context,
        version="2025-06-18",
        client_info={"name": "desk", "version": "1.2"},
        client_capabilities={"sampling": {}},
    )
    page = words(admin.get(f"/clients/{context.pk}/").content.decode())
    assert "fast 4 Protocol MCP 2026-07-28" in page
    assert "desk 1.2 Protocol MCP 2025-06-18" in page
    assert "1 session open" in page
    assert "Task handles: its version has no tasks." in page
    assert "Sampling: people write the reply" in page, "the first program declares no sampling"
    other = words(admin.get(f"/clients/{make_context(tenant).pk}/").content.decode())
    assert "No calls yet." in other


def test_its_number_of_tasks_leads_to_them(tenant: Tenant, admin: Client) -> None:
    context, other = make_context(tenant), make_context(tenant)
    tool = make_tool(make_server(tenant))
    mine = [make_task(context, tool).public_id for _ in range(2)]
    theirs = make_task(other, tool).public_id
    page = admin.get(f"/clients/{context.pk}/").content.decode()
    (link,) = re.findall(r'<a href="([^"]+)">2</a>', page)
    listed = admin.get(link).content.decode()
    assert all(public_id in listed for public_id in mine)
    assert theirs not in listed
