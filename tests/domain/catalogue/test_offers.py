"""What a server lists, stored: what changed, what is gone, what clients see of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.records import OfferKind
from taskhub.domain.catalogue.offer_reads import server_offers
from taskhub.domain.catalogue.offers import ListedOffer
from taskhub.domain.catalogue.sync import store_snapshot
from taskhub.domain.catalogue.view import Catalogue, catalogue, forget_catalogues
from taskhub.store.models import Event, Offer, Server, Tenant
from tests.factories import make_server, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def offer(kind: OfferKind, key: str, digest: str = "1", rejected: str = "") -> ListedOffer:
    return ListedOffer(kind, key, {"name": key, "b": 1, "a": 2}, digest * 64, rejected)


def prompt(key: str, digest: str = "1", rejected: str = "") -> ListedOffer:
    return offer(OfferKind.PROMPT, key, digest, rejected)


def resource(key: str, digest: str = "1") -> ListedOffer:
    return offer(OfferKind.RESOURCE, key, digest)


def template(key: str) -> ListedOffer:
    return offer(OfferKind.TEMPLATE, key)


def store(server: Server, *offers: ListedOffer, **more: Any) -> bool:
    given: dict[str, Any] = {"protocol": "2026-07-28", "info": {}, "tools": (), "capabilities": {"prompts": {}}, **more}
    return store_snapshot(server.pk, offers=offers, **given)


def seen(tenant: Tenant) -> Catalogue:
    forget_catalogues()
    return catalogue(tenant.pk)


def test_a_second_look_at_the_same_changes_nothing(tenant: Tenant) -> None:
    server = make_server(tenant)
    listed = (prompt("p"), resource("x://1"), template("x://{n}"))
    assert store(server, *listed)
    assert not store(server, *listed)
    found = seen(tenant)
    assert [one.key for one in (*found.prompts, *found.resources, *found.templates)] == ["p", "x://1", "x://{n}"]
    assert list(found.prompts[0].definition) == ["name", "b", "a"]  # key order and all
    assert found.upstreams[0].can("prompts")
    assert not found.upstreams[0].can("completions")


def test_each_list_has_a_digest_of_its_own(tenant: Tenant) -> None:
    server = make_server(tenant)
    store(server, prompt("p"), resource("x://1"))
    before = seen(tenant)
    store(server, prompt("p"), resource("x://1", "2"))
    after = seen(tenant)
    assert (after.digest, after.prompts_digest) == (before.digest, before.prompts_digest)
    assert after.resources_digest != before.resources_digest
    store(server, prompt("p", "2"), resource("x://1", "2"))
    assert seen(tenant).prompts_digest != after.prompts_digest
    assert seen(tenant).resources_digest == after.resources_digest


def test_what_is_gone_is_not_offered_and_forgotten_after_a_day(tenant: Tenant) -> None:
    server = make_server(tenant)
    store(server, prompt("p"), resource("x://1"))
    assert store(server, prompt("p"))
    assert seen(tenant).resources == ()
    assert [row.key for row in server_offers(tenant.pk, server.pk) if row.gone_at] == ["x://1"]
    assert store(server, prompt("p"), resource("x://1"))
    assert [one.key for one in seen(tenant).resources] == ["x://1"]
    store(server, prompt("p"))
    Offer.objects.filter(key="x://1").update(gone_at=timezone.now() - timedelta(days=2))
    store(server, prompt("p"))
    assert not Offer.objects.filter(key="x://1").exists()


def test_a_list_that_could_not_be_read_stays_as_it_was(tenant: Tenant) -> None:
    server = make_server(tenant)
    store(server, prompt("p"), resource("x://1"))
    assert store(server, resource("x://1"), unread={OfferKind.PROMPT: "at lunch"})
    assert [one.key for one in seen(tenant).prompts] == ["p"]
    server.refresh_from_db()
    assert server.incomplete == "prompts: at lunch"
    assert store(server, prompt("p"), resource("x://1"))
    server.refresh_from_db()
    assert server.incomplete == ""


def test_prompts_that_collide_get_their_servers_name_and_uris_the_first_server(tenant: Tenant) -> None:
    first, second = make_server(tenant, "first"), make_server(tenant, "second")
    # Whichever is read first: servers are reached in any order.
    store(second, prompt("p"), prompt("q"), resource("x://1"), resource("x://2"), template("x://{n}"))
    store(first, prompt("p"), resource("x://1"), template("x://{n}"))
    found = seen(tenant)
    assert [(one.exposed_name, one.server_name, one.key) for one in found.prompts] == [
        ("p", "first", "p"),
        ("second__p", "second", "p"),
        ("q", "second", "q"),
    ]
    assert [(one.key, one.server_name) for one in found.resources] == [("x://1", "first"), ("x://2", "second")]
    assert [one.server_name for one in found.templates] == ["first"]
    assert [row.exposed_name for row in server_offers(tenant.pk, second.pk)][:2] == ["second__p", "q"]
    hidden = {row.key: row.hidden for row in server_offers(tenant.pk, second.pk)}
    assert hidden == {
        "p": "",
        "q": "",
        "x://1": "first offers the same",
        "x://2": "",
        "x://{n}": "first offers the same",
    }
    # As soon as the first one is not offered, the second one's is.
    Server.objects.filter(pk=first.pk).update(enabled=False)
    assert [one.server_name for one in seen(tenant).resources] == ["second", "second"]
    assert {row.hidden for row in server_offers(tenant.pk, second.pk)} == {""}


def test_a_prefix_counts_for_prompts_and_not_for_uris(tenant: Tenant) -> None:
    server = make_server(tenant)
    Server.objects.filter(pk=server.pk).update(prefix="mine_")
    store(server, prompt("p"), resource("x://1"))
    found = seen(tenant)
    assert (found.prompts[0].exposed_name, found.resources[0].exposed_name) == ("mine_p", "x://1")


def test_what_was_rejected_is_kept_for_people_only(tenant: Tenant) -> None:
    server = make_server(tenant)
    store(server, prompt("bad", rejected="too odd"), prompt("good"))
    assert [one.key for one in seen(tenant).prompts] == ["good"]
    assert [row.rejected for row in server_offers(tenant.pk, server.pk)] == ["too odd", ""]


def test_another_tenants_offers_are_nobodys_business(tenant: Tenant) -> None:
    store(make_server(make_tenant(), "theirs"), prompt("p"), resource("x://1"))
    found = seen(tenant)
    assert (found.prompts, found.resources, found.upstreams) == ((), (), ())
    theirs = Server.objects.get(name="theirs")
    assert server_offers(tenant.pk, theirs.pk) == ()


def test_a_prompt_that_reads_differently_is_on_record_and_resources_together(tenant: Tenant) -> None:
    server = make_server(tenant, "lib")
    store(server, prompt("p"), prompt("q"), *(resource(f"x://{n}") for n in range(30)))
    store(server, prompt("p", "2"), prompt("q"), *(resource(f"x://{n}", "2") for n in range(30)))
    events = list(Event.objects.filter(tenant=tenant, action__endswith=".changed").order_by("id"))
    assert [(event.action, event.target) for event in events] == [
        ("prompt.changed", "lib/p"),
        ("resources.changed", "lib"),
    ]
    assert events[0].before == {"digest": "1" * 64}
    assert events[1].after is not None
    assert (events[1].after["count"], len(events[1].after["uris"])) == (30, 20)
