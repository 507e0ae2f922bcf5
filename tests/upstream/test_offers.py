"""Prompts, resources and templates as servers list them: verbatim, vetted, whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import Resource, ResourceTemplate

from taskhub.core.records import OfferKind
from taskhub.domain.catalogue.offers import ListedOffer
from taskhub.upstream import offers
from taskhub.upstream.catalogue import Snapshot
from taskhub.upstream.offers import vetted_offer
from taskhub.upstream.target import Target
from tests.upstream.library import prompt, shelves
from tests.upstream.test_catalogue import watching

BARE = Target("python", "tests.upstream.library:bare")
LIBRARY = Target("python", "tests.upstream.library:library")


@pytest.fixture(autouse=True)
def _shelves() -> Iterator[None]:
    shelves.reset()
    yield
    shelves.reset()


def old(directory: Path) -> Target:
    return Target("stdio", f"{sys.executable} -m tests.upstream.old_library {directory}")


def keys(snapshot: Snapshot, kind: OfferKind) -> list[str]:
    return [offer.key for offer in snapshot.offers if offer.kind is kind]


def one(snapshot: Snapshot, key: str) -> ListedOffer:
    (found,) = (offer for offer in snapshot.offers if offer.key == key)
    return found


async def test_everything_a_server_offers_is_listed_as_it_says_it() -> None:
    async with watching(LIBRARY) as watch:
        found = await watch.seen(1)
    assert keys(found, OfferKind.PROMPT) == ["greeting", "refused"]
    assert keys(found, OfferKind.RESOURCE) == ["lib://note", "lib://bytes", "lib://big"]
    assert keys(found, OfferKind.TEMPLATE) == ["lib://page/{number}", "lib://asked/{what}", "lib://held/{label}"]
    icon = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
    assert one(found, "lib://note").definition == {
        "uri": "lib://note",
        "name": "note",
        "title": "A note",
        "description": "It changes",
        "mimeType": "text/plain",
        "icons": [icon],
        "annotations": {"audience": ["user"], "priority": 0.5},
        "_meta": {"example.com/shelf": 7},
    }
    assert one(found, "greeting").definition["icons"] == [icon]
    assert found.capabilities["completions"] == {}
    assert found.capabilities["resources"]["subscribe"] is True
    assert (found.unread, watch.problems) == ({}, [])


async def test_an_old_server_is_listed_with_keys_that_nobody_knows(tmp_path: Path) -> None:
    async with watching(old(tmp_path)) as watch:
        found = await watch.seen(1)
    assert one(found, "old_prompt").definition["x-old"] == {"kept": 1}
    assert one(found, "old://file").definition == {
        "uri": "old://file",
        "name": "file",
        "mimeType": "text/plain",
        "size": 3,
        "x-old": [1],
    }
    # It has never heard of templates, and that is no fault.
    assert (keys(found, OfferKind.TEMPLATE), found.unread) == ([], {})


async def test_all_pages_are_read_and_a_key_counts_once() -> None:
    shelves.prompts = [prompt(f"p{number}") for number in range(5)]
    shelves.resources = [Resource(uri=f"x://{number % 4}", name=f"{number}") for number in range(7)]
    shelves.templates = [ResourceTemplate(uri_template="x://{n}", name="n")]
    shelves.page = 2
    async with watching(BARE) as watch:
        found = await watch.seen(1)
    assert keys(found, OfferKind.PROMPT) == [f"p{number}" for number in range(5)]
    assert keys(found, OfferKind.RESOURCE) == [f"x://{number}" for number in range(4)]
    assert one(found, "x://0").definition["name"] == "0"
    # A server without tools is a server too.
    assert (found.tools, watch.problems) == ((), [])


async def test_a_server_that_never_stops_listing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "MAX_OFFERS", 3)
    shelves.resources = [Resource(uri=f"x://{number}", name="x") for number in range(10)]
    shelves.page = 2
    async with watching(BARE) as watch:
        found = await watch.seen(1)
    assert keys(found, OfferKind.RESOURCE) == ["x://0", "x://1", "x://2"]


async def test_a_list_that_fails_costs_nothing_but_itself() -> None:
    shelves.broken = "prompts"
    shelves.resources = [Resource(uri="x://1", name="x")]
    async with watching(BARE) as watch:
        found = await watch.seen(1)
    assert list(found.unread) == [OfferKind.PROMPT]
    assert "the prompts are at lunch" in found.unread[OfferKind.PROMPT]
    assert keys(found, OfferKind.RESOURCE) == ["x://1"]
    assert watch.problems == []


DEEP: dict[str, Any] = {}
_node = DEEP
for _ in range(40):
    _node["a"] = {}
    _node = _node["a"]


@pytest.mark.parametrize(
    ("kind", "definition", "why"),
    [
        (OfferKind.PROMPT, {"name": ""}, "the name is not 1 to 128 printable characters"),
        (OfferKind.PROMPT, {"name": "x" * 129}, "the name is not 1 to 128 printable characters"),
        (OfferKind.PROMPT, {"name": "two\nlines"}, "the name is not 1 to 128 printable characters"),
        (OfferKind.PROMPT, {"name": "big", "description": "x" * 70_000}, "the definition is larger than 65536 bytes"),
        (OfferKind.PROMPT, {"name": "deep", "_meta": DEEP}, "the definition is nested deeper than 32"),
        (OfferKind.RESOURCE, {"uri": "no scheme"}, "the uri has no scheme"),
        (OfferKind.RESOURCE, {"uri": "x://" + "y" * 1_024}, "the uri is not 1 to 1024 printable characters"),
        (OfferKind.RESOURCE, {"uri": "x://" + "ü" * 1_020 * 2}, "the uri is not 1 to 1024 printable characters"),
        (OfferKind.RESOURCE, {"uri": "x://" + "\U0001f600" * 1_000}, "the uri is not 1 to 1024 printable characters"),
        (OfferKind.RESOURCE, {"uri": "x://a"}, ""),
        (OfferKind.TEMPLATE, {"uriTemplate": "{+anything}"}, ""),
        (OfferKind.PROMPT, {"name": "with spaces and ünï"}, ""),
    ],
)
def test_what_clients_cannot_use_is_left_out_with_a_reason(
    kind: OfferKind, definition: dict[str, Any], why: str
) -> None:
    name = {OfferKind.PROMPT: "name", OfferKind.RESOURCE: "uri", OfferKind.TEMPLATE: "uriTemplate"}[kind]
    found = vetted_offer(kind, definition, name)
    assert found.rejected == why
    assert len(found.key.encode()) <= 2_048  # an index holds it


async def test_a_changed_list_is_read_again() -> None:
    shelves.prompts = [prompt("one")]
    async with watching(BARE) as watch:
        first = await watch.seen(1)
        shelves.prompts = [prompt("one", description="other")]
        watch.watcher.refresh()
        second = await watch.seen(2)
    assert one(first, "one").digest != one(second, "one").digest
