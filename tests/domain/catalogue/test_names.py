"""Whose a name is: a server's as long as the server exists, whatever becomes of the tool or the server."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from taskhub.core.names import HUB_TOOL_PREFIX
from taskhub.core.rules import Rule, Then
from taskhub.core.states import OfferKind
from taskhub.domain.catalogue.naming import SETTLE_SECONDS
from taskhub.domain.catalogue.offers import ListedOffer
from taskhub.domain.catalogue.sync import Listed, store_snapshot
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.store.models import Offer, Server, Tenant, Tool
from tests.core.test_names import ANTHROPIC, GEMINI, OPENAI
from tests.factories import ROOT, make_server, make_tenant
from tests.support.hub import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def first(tenant: Tenant) -> Server:
    return make_server(tenant, "first")


@pytest.fixture
def second(first: Server) -> Server:
    return make_server(first.tenant, "second")


def listing(name: str, rejected: str = "") -> Listed:
    """A tool as its server lists it."""
    return Listed(name, {"name": name, "inputSchema": {"type": "object"}}, "1" * 64, rejected, None, False, False)


def prompt(key: str) -> ListedOffer:
    return ListedOffer(OfferKind.PROMPT, key, {"name": key}, "1" * 64)


def lists(server: Server, *names: str, prompts: tuple[str, ...] = ()) -> None:
    """The server is read, and lists these tools and prompts."""
    listed, offers = [listing(name) for name in names], [prompt(key) for key in prompts]
    store_snapshot(server.pk, protocol="", info={}, tools=listed, offers=offers)


def tools(tenant: Tenant) -> dict[str, str]:
    """What clients are listed: each name, and the server and tool behind it."""
    forget_catalogues()
    return {tool.exposed_name: f"{tool.server_name}/{tool.name}" for tool in catalogue(tenant.pk).tools}


def prompts(tenant: Tenant) -> dict[str, str]:
    forget_catalogues()
    return {offer.exposed_name: f"{offer.server_name}/{offer.key}" for offer in catalogue(tenant.pk).prompts}


def enable(server: Server, enabled: bool) -> None:
    Server.objects.filter(pk=server.pk).update(enabled=enabled)


def test_the_server_that_has_a_name_first_keeps_it(tenant: Tenant, first: Server, second: Server) -> None:
    """An older server that offers more later takes no name from another: its callers mean that one."""
    lists(first, "own")
    lists(second, "look", prompts=("p",))
    lists(first, "own", "look", prompts=("p",))
    lists(second, "look", prompts=("p",))
    assert tools(tenant) == {"own": "first/own", "look": "second/look", "first__look": "first/look"}
    assert prompts(tenant) == {"p": "second/p", "first__p": "first/p"}


@pytest.mark.parametrize("order", list(itertools.permutations(("first", "second", "third"))))
def test_servers_that_are_reached_for_the_first_time_take_turns_as_they_were_added(
    tenant: Tenant, first: Server, second: Server, order: tuple[str, ...]
) -> None:
    """Workers reach the servers of a new hub in any order."""
    make_server(tenant, "third")
    for name in order:
        lists(Server.objects.get(tenant=tenant, name=name), "look", "second__look", prompts=("p",))
    found = tools(tenant)
    assert (found["look"], found["third__look"]) == ("first/look", "third/look")
    assert found["second__look"] == "first/second__look"
    assert len(found) == 6
    assert prompts(tenant) == {"p": "first/p", "second__p": "second/p", "third__p": "third/p"}


def test_a_server_that_is_reached_late_takes_no_name(tenant: Tenant, first: Server, second: Server) -> None:
    lists(second, "look", prompts=("p",))
    for model in (Tool, Offer):
        model.objects.update(first_seen_at=timezone.now() - timedelta(seconds=SETTLE_SECONDS))
    lists(first, "look", prompts=("p",))
    assert tools(tenant) == {"look": "second/look", "first__look": "first/look"}
    assert prompts(tenant) == {"p": "second/p", "first__p": "first/p"}


@pytest.mark.parametrize("listed_while_disabled", [True, False])
def test_a_disabled_servers_names_stay_its_own(
    tenant: Tenant, first: Server, second: Server, listed_while_disabled: bool
) -> None:
    lists(first, "look", prompts=("p",))
    if not listed_while_disabled:
        lists(second, "look", prompts=("p",))
    enable(first, False)
    lists(second, "look", prompts=("p",))
    assert tools(tenant) == {"second__look": "second/look"}
    assert prompts(tenant) == {"second__p": "second/p"}
    enable(first, True)
    lists(first, "look", prompts=("p",))
    assert tools(tenant) == {"look": "first/look", "second__look": "second/look"}
    assert prompts(tenant) == {"p": "first/p", "second__p": "second/p"}


def test_a_tool_that_is_gone_keeps_its_name_and_comes_back_to_it(tenant: Tenant, first: Server, second: Server) -> None:
    lists(first, "look", prompts=("p",))
    lists(first)
    Offer.objects.update(gone_at="2020-01-01T00:00:00Z")
    lists(first)
    lists(second, "look", prompts=("p",))
    assert (tools(tenant), prompts(tenant)) == ({"second__look": "second/look"}, {"second__p": "second/p"})
    lists(first, "look", prompts=("p",))
    assert tools(tenant) == {"look": "first/look", "second__look": "second/look"}
    assert prompts(tenant) == {"p": "first/p", "second__p": "second/p"}


@pytest.mark.parametrize("how", ["off", "rejected"])
def test_a_tool_that_is_off_or_rejected_keeps_its_name(tenant: Tenant, first: Server, second: Server, how: str) -> None:
    lists(first, "look")
    if how == "off":
        Tool.objects.update(enabled=False)
    else:
        store_snapshot(first.pk, protocol="", info={}, tools=[listing("look", rejected="its schema is odd")])
    lists(second, "look")
    assert tools(tenant) == {"second__look": "second/look"}


def test_a_tool_that_its_server_renames_leaves_its_old_name_behind(
    tenant: Tenant, first: Server, second: Server
) -> None:
    lists(first, "look")
    lists(first, "find")
    lists(second, "look", "find")
    assert tools(tenant) == {"find": "first/find", "second__look": "second/look", "second__find": "second/find"}


def test_the_names_of_a_server_that_exists_no_more_are_free(tenant: Tenant, first: Server, second: Server) -> None:
    lists(first, "look")
    lists(second, "look")
    first.delete()
    lists(second, "look")
    assert tools(tenant) == {"second__look": "second/look"}, "what a server has, it keeps"
    lists(make_server(tenant, "third"), "look")
    assert tools(tenant) == {"second__look": "second/look", "look": "third/look"}


def test_other_tenants_names_are_their_own(tenant: Tenant, first: Server) -> None:
    lists(first, "look")
    theirs = make_tenant()
    lists(make_server(theirs, "first"), "look")
    assert tools(tenant) == tools(theirs) == {"look": "first/look"}


def hides(tenant: Tenant, *rules: Rule) -> None:
    version = present(tenant.pk).version
    save_rules(tenant.pk, rules, expected=version, actor=ROOT)


HIDE: Final = Rule(name="Hides", when='client.name == "agent" && server.name == "first"', then=Then.HIDE)


def test_while_a_rule_hides_tools_a_name_does_not_depend_on_others(
    tenant: Tenant, first: Server, second: Server
) -> None:
    """Else who does not see `look` would learn of it by the name of another."""
    lists(first, "early")
    hides(tenant, HIDE)
    Server.objects.filter(pk=make_server(tenant, "third").pk).update(prefix="gh_")
    lists(first, "early", "look", prompts=("p",))
    lists(second, "look", "only", prompts=("p", "q"))
    lists(Server.objects.get(name="third", tenant=tenant), "look")
    given = {
        "early": "first/early",
        "first__look": "first/look",
        "second__look": "second/look",
        "second__only": "second/only",
        "gh_look": "third/look",
    }
    assert tools(tenant) == given
    assert prompts(tenant) == {"first__p": "first/p", "second__p": "second/p", "second__q": "second/q"}
    # Not by a prefix that two have either.
    Server.objects.filter(pk=make_server(tenant, "fourth").pk).update(prefix="gh_")
    lists(Server.objects.get(name="fourth", tenant=tenant), "other")
    assert tools(tenant) == given | {"fourth__other": "fourth/other"}
    # What has a name keeps it, and where nothing is hidden they are short again.
    hides(tenant, replace(HIDE, shadow=True), replace(HIDE, name="off", enabled=False))
    lists(second, "look", "only", "late", prompts=("p", "q"))
    assert tools(tenant) == given | {"fourth__other": "fourth/other", "late": "second/late"}


def test_a_name_that_was_made_may_be_taken_too(tenant: Tenant, first: Server, second: Server) -> None:
    lists(first, "look", "second__look")
    lists(second, "look")
    assert list(tools(tenant)) == ["look", "second__look", "second__look_b3c5088c"]


@pytest.mark.django_db(transaction=True)
def test_two_processes_that_list_at_the_same_time_give_no_name_twice(
    tenant: Tenant, first: Server, second: Server
) -> None:
    """The second waits for the first, and then finds the name taken."""
    at: list[int] = []

    def later() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                at.append(cursor.fetchone()[0])
            lists(second, "look", prompts=("p",))
        finally:
            connections.close_all()

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [at[0]])
            return bool(cursor.fetchone()[0])

    thread = threading.Thread(target=later)
    with transaction.atomic():
        lists(first, "look", prompts=("p",))
        thread.start()
        wait_until(lambda: bool(at) and waits(), "the second to wait for the first")
    thread.join(30)
    assert tools(tenant) == {"look": "first/look", "second__look": "second/look"}
    assert prompts(tenant) == {"p": "first/p", "second__p": "second/p"}


LONG: Final = "l" * 128
SERVERS: Final = {
    # name: prefix, whether it is disabled afterwards, what it lists
    "first": ("", False, ("look", "a.b", "a/b", "größe", "日本", "a b", LONG, LONG[:-1] + "m", "x" * 60, "9lives")),
    "off": ("", True, ("look", "hidden", "a.b", "taskhub_get_task", "z" * 100)),
    "gone": ("", False, ("vanished", "look")),
    "second": ("", False, ("look", "hidden", "vanished", "a.b", "a/b", "größe", LONG, "second__look", "x" * 60)),
    "prod.eu": ("", False, ("look", "a.b", "a_b", "z" * 100)),
    "7zip": ("", False, ("look", "pack")),
    "taskhub": ("", False, ("look", "taskhub_wait_for_task")),
    "prefixed": ("gh.", False, ("look", "a:b", LONG, "a_b")),
    "s" * 64: ("", False, ("look", "hidden")),
}
"""40 tools."""


def test_every_name_that_is_made_is_good_for_every_model_and_stable(tenant: Tenant) -> None:
    def read() -> dict[str, str]:
        for name, (_, _, names) in SERVERS.items():
            lists(Server.objects.get(tenant=tenant, name=name), *names)
        lists(Server.objects.get(tenant=tenant, name="gone"))
        rows = Tool.objects.filter(server__tenant=tenant).select_related("server")
        return {f"{row.server.name}/{row.name}": row.exposed_name for row in rows}

    for name, (prefix, _, _) in SERVERS.items():
        Server.objects.filter(pk=make_server(tenant, name).pk).update(prefix=prefix)
    found = read()
    assert (len(found), len(set(found.values()))) == (40, 40)
    for tool, exposed in found.items():
        name = tool.partition("/")[2]
        assert len(exposed) <= 60
        assert not exposed.startswith(HUB_TOOL_PREFIX)
        if exposed != name:
            assert all(rule.match(exposed) for rule in (OPENAI, ANTHROPIC, GEMINI)), exposed
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    # Read again, in another order, with servers off: as after a restart.
    for name, (_, off, _) in SERVERS.items():
        enable(Server.objects.get(tenant=tenant, name=name), not off)
    before = tools(tenant)
    assert not any(behind.startswith(("off/", "gone/")) for behind in before.values())
    for name, (_, _, names) in reversed(SERVERS.items()):
        lists(Server.objects.get(tenant=tenant, name=name), *reversed(names))
    assert read() == found
    assert tools(tenant) == before
    # And in another hub the same names are made of the same servers.
    for server in Server.objects.filter(tenant=tenant):
        server.delete()
    for name, (prefix, _, _) in SERVERS.items():
        Server.objects.filter(pk=make_server(tenant, name).pk).update(prefix=prefix)
    assert read() == found


EXPECTED: Final = {
    "first/a.b": "a.b",
    "first/a/b": "a/b",
    "first/größe": "größe",
    "first/9lives": "9lives",
    "off/hidden": "hidden",
    "off/taskhub_get_task": "off__taskhub_get_task",
    "second/hidden": "second__hidden",
    "second/vanished": "second__vanished",
    "second/a.b": "second__a_b",
    "second/größe": "second__gr__e",
    "prod.eu/look": "prod_eu__look",
    "prod.eu/a_b": "a_b",
    "7zip/look": "_7zip__look",
    "taskhub/look": "_taskhub__look",
    "prefixed/look": "gh_look",
    "prefixed/a:b": "gh_a_b",
}
"""Some of them, to be read."""
