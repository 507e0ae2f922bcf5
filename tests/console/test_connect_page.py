"""Connect a client: what to paste, with the token on the page that shows it, and with a word for it everywhere else."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from taskhub.console.templatetags.console import prose
from taskhub.core.names import SCOPES
from taskhub.domain.clients.programs import programs
from taskhub.store.models import AuthContext, Tenant
from tests.console.admin import browser, words
from tests.factories import make_context, make_person, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    return browser(make_person("admin", tenant))


def snippets(page: str) -> dict[str, str]:
    found = re.findall(r'<pre class="code" id="snippet-([\w-]+)"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return {key: html.unescape(text) for key, text in found}


def test_the_page_of_a_new_token_has_it_in_each_snippet_and_no_other_page_does(
    tenant: Tenant, admin: Client, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://hub.example.com"
    issued = admin.post("/clients/issue", {"client": "ci", "scopes": list(SCOPES), "days": "30", "once": "once-1"})
    page = issued.content.decode()
    token = re.search(r'<code id="token"[^>]*>([^<]+)</code>', page)
    assert token
    address = "https://hub.example.com/mcp"
    assert snippets(page) == {program.key: program.filled(address, token[1]) for program in programs()}
    client = AuthContext.objects.get(tenant=tenant, name="ci")
    for url in ("/clients/connect", f"/clients/connect?client={client.pk}"):
        later = admin.get(url).content.decode()
        assert token[1] not in later
        assert snippets(later) == {program.key: program.filled(address, "TOKEN") for program in programs()}


def test_each_program_is_in_the_list_and_has_a_button_that_copies_its_snippet(admin: Client) -> None:
    page = admin.get("/clients/connect").content.decode()
    assert re.findall(r'href="#connect-([\w-]+)"', page) == [program.key for program in programs()]
    for program in programs():
        assert page.count(f'id="connect-{program.key}"') == page.count(f'data-copy="#snippet-{program.key}"') == 1
        assert program.title in page
        assert f'href="{program.source}"' in page
    copied = set(re.findall(r'data-copy="#([\w-]+)"', page))
    assert copied - set(re.findall(r'id="([\w-]+)"', page)) == set()


def test_it_says_what_stands_for_the_token_and_where_there_is_one(tenant: Tenant, admin: Client) -> None:
    page = admin.get("/clients/connect").content.decode()
    assert "TOKEN stands for the token. A token is shown once" in words(page)
    assert 'href="/clients/?new#new"' in page
    own = make_context(tenant, "agent")
    page = admin.get(f"/clients/connect?client={own.pk}").content.decode()
    assert f'href="/clients/{own.pk}/#issue"' in page
    assert 'id="issue"' in admin.get(f"/clients/{own.pk}/").content.decode()
    outside = AuthContext.objects.create(tenant=tenant, issuer="https://login.example", subject="s", name="far away")
    page = admin.get(f"/clients/connect?client={outside.pk}").content.decode()
    assert "The tokens of far away come from its own issuer." in words(page)
    assert "Issue a token" not in page


def test_pages_of_clients_lead_there(tenant: Tenant, admin: Client) -> None:
    client = make_context(tenant, "agent")
    assert 'href="/clients/connect"' in admin.get("/clients/").content.decode()
    assert f'href="/clients/connect?client={client.pk}"' in admin.get(f"/clients/{client.pk}/").content.decode()


def test_a_client_of_another_tenant_is_not_there(admin: Client) -> None:
    stranger = make_context(make_tenant())
    for pk in (stranger.pk, 2**40):
        assert admin.get(f"/clients/connect?client={pk}").status_code == 404


def test_a_sentence_may_have_code_and_names_and_no_markup_of_its_own() -> None:
    assert prose("Set `a<b>` in *Tools & more*.") == "Set <code>a&lt;b&gt;</code> in <b>Tools &amp; more</b>."
