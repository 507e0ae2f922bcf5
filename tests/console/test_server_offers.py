"""Prompts and resources on a server's page."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.console.views.servers import SHOWN_OFFERS
from taskhub.core.records import OfferKind
from taskhub.domain.catalogue.offers import ListedOffer
from taskhub.domain.catalogue.sync import store_snapshot
from taskhub.store.models import Server, Tenant
from tests.console.admin import HTMX, browser, words
from tests.factories import make_person, make_server, make_tenant

pytestmark = pytest.mark.django_db


def offer(kind: OfferKind, key: str, rejected: str = "", **definition: object) -> ListedOffer:
    return ListedOffer(kind, key, {"name": key, **definition}, "1" * 64, rejected)


def store(server: Server, *offers: ListedOffer, **unread: str) -> None:
    store_snapshot(
        server.pk,
        protocol="2026-07-28",
        info={},
        tools=(),
        offers=offers,
        unread={OfferKind(kind): why for kind, why in unread.items()},
    )


def page(client: Client, server: Server, query: str = "") -> str:
    answer = client.get(f"/servers/{server.pk}/{query}")
    assert answer.status_code == 200
    html: str = answer.content.decode()
    return html


def test_a_server_that_offers_nothing_says_so(tenant: Tenant, admin: Client) -> None:
    server = make_server(tenant, "demo")
    assert words(page(admin, server)).count("Not read yet.") == 3
    store(server)
    text = words(page(admin, server))
    assert "No prompts. The server offers no prompts." in text
    assert "No resources. The server offers no resources and no templates." in text


def test_prompts_and_resources_are_told_with_what_they_are_for(tenant: Tenant, admin: Client) -> None:
    server = make_server(tenant, "demo")
    store(
        server,
        offer(
            OfferKind.PROMPT,
            "review",
            title="Review <it>",
            description="Looks twice",
            arguments=[{"name": "what", "required": True}, {"name": "how"}, "odd"],
        ),
        offer(OfferKind.PROMPT, "plain"),
        offer(OfferKind.TEMPLATE, "x://{n}", name="numbered"),
        offer(OfferKind.RESOURCE, "x://1", name="one", mimeType="text/plain", size=12_345, description="The first"),
    )
    html = page(admin, server)
    assert "Review &lt;it&gt;" in html
    text = words(html)
    assert "review Review &lt;it&gt; Looks twice what, how?" in text
    assert "plain no description" in text
    assert "x://1 one The first text/plain, 12,345 bytes x://{n} template numbered" in text
    assert "Rejected" not in text


def test_what_clients_do_not_see_says_why(tenant: Tenant, admin: Client) -> None:
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    store(first, offer(OfferKind.RESOURCE, "x://1"), offer(OfferKind.PROMPT, "p"))
    store(
        second,
        offer(OfferKind.RESOURCE, "x://1"),
        offer(OfferKind.RESOURCE, "bad", "the uri has no scheme"),
        offer(OfferKind.PROMPT, "p"),
    )
    text = words(page(admin, second))
    assert "Hidden first offers the same" in text
    assert "Rejected the uri has no scheme" in text
    assert "second__p name on the server: p" in text
    assert "Hidden" not in words(page(admin, first))


def test_what_is_gone_and_what_could_not_be_read_is_told(tenant: Tenant, admin: Client) -> None:
    server = make_server(tenant, "demo")
    store(server, offer(OfferKind.RESOURCE, "x://1"), offer(OfferKind.PROMPT, "p"))
    store(server, prompt="McpError: <at lunch>")
    html = page(admin, server)
    assert "1 no longer offered" in words(html)
    assert "Not everything could be read. prompts: McpError: &lt;at lunch&gt;." in words(html)
    assert "What was read before is still offered." in words(html)


def test_a_long_list_is_cut_until_somebody_asks_for_all(tenant: Tenant, admin: Client) -> None:
    server = make_server(tenant, "demo")
    store(server, *(offer(OfferKind.RESOURCE, f"x://{number}/end") for number in range(SHOWN_OFFERS + 20)))
    short, whole = page(admin, server), page(admin, server, "?all")
    rows = '<th scope="row">'
    assert (short.count(rows), whole.count(rows)) == (SHOWN_OFFERS, SHOWN_OFFERS + 20)
    assert "Show 20 more" in words(short)
    assert "Show" not in words(whole[whole.index("resources-title") :])
    # A fresh look, when a hint comes, shows as much as before.
    assert f'hx-get="/servers/{server.pk}/?&amp;all"' in whole


def test_whoever_may_see_servers_sees_them_and_nobody_else(tenant: Tenant) -> None:
    server = make_server(tenant, "demo")
    store(server, offer(OfferKind.RESOURCE, "x://secret"))
    assert "x://secret" in page(browser(make_person("viewer", tenant)), server)
    stranger = browser(make_person("admin", make_tenant()))
    assert stranger.get(f"/servers/{server.pk}/").status_code == 404


def test_it_costs_one_query_however_many_there_are(
    tenant: Tenant, admin: Client, django_assert_max_num_queries: object
) -> None:
    server = make_server(tenant, "demo")
    store(server, *(offer(OfferKind.RESOURCE, f"x://{number}") for number in range(50)))
    with django_assert_max_num_queries(9):  # type: ignore[operator]
        assert "<html" not in admin.get(f"/servers/{server.pk}/", headers=HTMX).content.decode()
