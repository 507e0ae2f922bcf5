"""From hints to rings, dropped caches and messages for consoles: five a second at most, and only one's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pytest
from django.db import connection

from taskhub.core.hints import CATALOGUE, STANDING, follow_topic, relay_topic, resource_topic, standing_topic
from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import RuleList
from taskhub.core.states import Door
from taskhub.domain.catalogue.view import Catalogue, cached_catalogue, catalogue
from taskhub.domain.clients.principals import cached_principal, principal_of
from taskhub.domain.clients.tokens import issue_token, revoke_token, set_context_disabled
from taskhub.domain.hints.generation import heard
from taskhub.lib.lanes import Lanes
from taskhub.protocol.hub import Hub
from taskhub.push.listener import COALESCE_SECONDS, Feeder
from taskhub.store.models import Tenant
from tests.factories import make_context, make_server, make_task, make_tenant, make_tool
from tests.push.kit import BOUND, Console, background, end_listeners, feeding, make_hub, notify, until

T = TypeVar("T")
ROOT = Actor(name="root", door=Door.CLI)


@dataclass(frozen=True)
class Remembered:
    """A tenant of which this process has a principal and the catalogue in its caches."""

    tenant: Tenant
    token: str
    token_id: int
    context_id: int

    @property
    def principal(self) -> bool:
        return cached_principal(self.token) is not None

    @property
    def tools(self) -> bool:
        return cached_catalogue(self.tenant.pk) is not None


def make_known() -> Remembered:
    tenant = make_tenant()
    make_tool(make_server(tenant))
    token, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    principal_of(token, "")
    catalogue(tenant.pk)
    found = Remembered(tenant, token, row.pk, row.context_id)
    assert (found.principal, found.tools) == (True, True)
    return found


@pytest.fixture
def known(db: None) -> Remembered:
    return make_known()


@pytest.fixture
def committed(transactional_db: None) -> Remembered:
    """The same, where other connections see it."""
    return make_known()


def elsewhere(work: Callable[[], T]) -> T:
    """Run in a thread of its own with a connection of its own, as another process would."""
    try:
        return work()
    finally:
        connection.close()


def close_my_connection() -> None:
    connection.close()  # each thread has its own behind this name


def remember(known: Remembered) -> None:
    principal_of(known.token, "")
    catalogue(known.tenant.pk)


LISTED = Catalogue(tenant_id=7, tools=(), by_name={}, digest="", rules=RuleList(0, ()))


def keep(hub: Hub) -> None:
    """A page of a list was answered."""
    hub.pages.page("2026-07-28", "tools/list", LISTED, 0, lambda: b"kept")


def keeps(hub: Hub) -> bool:
    """Whether that page would be answered as it was."""
    return hub.pages.page("2026-07-28", "tools/list", LISTED, 0, lambda: b"new") == b"kept"


# --- rings and caches


@pytest.mark.parametrize("kind", ["r", "x", "t"])
def test_a_hint_of_a_task_rings_who_watches_it_and_drops_no_cache(known: Remembered, kind: str) -> None:
    hub = make_hub()
    keep(hub)
    feeder = Feeder(hub)
    before = heard(1), heard(2)
    with hub.hints.watch("abc") as mine, hub.hints.watch("abd", CATALOGUE) as other:
        feeder.on_hint(f"{kind} 1 2 3 abc")
        assert (mine.is_set(), other.is_set()) == (True, False)
    assert (heard(1) != before[0], heard(2) != before[1]) == (True, False)
    assert (known.principal, known.tools, keeps(hub)) == (True, True, True)


def test_a_hint_of_the_catalogue_drops_it_and_all_that_was_made_from_it_and_rings_its_topic(
    known: Remembered,
) -> None:
    hub = make_hub()
    keep(hub)
    with hub.hints.watch(CATALOGUE) as lists, hub.hints.watch("abc") as task:
        Feeder(hub).on_hint("c")
        assert (lists.is_set(), task.is_set()) == (True, False)
    assert (known.principal, known.tools, keeps(hub)) == (True, False, False)


def test_a_hint_of_principals_drops_them_and_rings_every_stream(known: Remembered) -> None:
    hub = make_hub()
    keep(hub)
    with hub.hints.watch(CATALOGUE) as lists, hub.hints.watch("abc") as task:
        Feeder(hub).on_hint("p")
        assert (lists.is_set(), task.is_set()) == (True, True)
    assert (known.principal, known.tools, keeps(hub)) == (False, True, True)


def test_what_one_client_may_do_concerns_its_own_streams_alone(known: Remembered) -> None:
    other, row = issue_token(tenant_id=known.tenant.pk, client="other", actor=ROOT)
    principal_of(other, "")
    hub = make_hub()
    with (
        hub.hints.watch(standing_topic(known.context_id)) as mine,
        hub.hints.watch("abc", standing_topic(row.context_id)) as others,
    ):
        Feeder(hub).on_hint(f"e {known.context_id}")
        assert (mine.is_set(), others.is_set()) == (True, False)
    assert (known.principal, cached_principal(other) is not None) == (False, True)


def test_after_a_gap_nothing_is_believed_and_everybody_looks_again(known: Remembered) -> None:
    hub = make_hub()
    keep(hub)
    with hub.hints.watch(CATALOGUE) as lists, hub.hints.watch("abc") as task:
        before = heard(1)
        Feeder(hub).on_gap()
        assert (lists.is_set(), task.is_set(), heard(1) != before) == (True, True, True)
    assert (known.principal, known.tools, keeps(hub)) == (False, False, False)


@pytest.mark.parametrize(
    "payload", ["", " ", "w", "k", "z", "t", "t 1 2 3", "t 1 2 3 abc d", "tt 1 2 3 abc", "C", "p2", "c;p", "abc"]
)
def test_what_is_no_hint_for_streams_rings_nobody_and_drops_nothing(known: Remembered, payload: str) -> None:
    hub = make_hub()
    keep(hub)
    with hub.hints.watch("abc", "", "3", CATALOGUE) as bell:
        Feeder(hub).on_hint(payload)
        assert not bell.is_set()
    assert (known.principal, known.tools, keeps(hub)) == (True, True, True)


@pytest.mark.parametrize(
    ("payload", "topic"),
    [
        ("a 77", relay_topic(77)),
        ("f some-holder", follow_topic("some-holder")),
        (f"u {resource_topic(3, 'x://1')}", resource_topic(3, "x://1")),
    ],
)
def test_a_hint_for_one_waiter_rings_its_topic_alone(payload: str, topic: str) -> None:
    hub = make_hub()
    with hub.hints.watch(topic, "another") as mine, hub.hints.watch("another", CATALOGUE) as other:
        Feeder(hub).on_hint(payload)
        assert (mine.is_set(), mine.take(), other.is_set()) == (True, {topic}, False)
        assert mine.take() == set()


def test_after_a_gap_every_topic_may_have_rung_and_otherwise_none_has() -> None:
    hub = make_hub()
    with hub.hints.watch("one", "two") as bell:
        hub.hints.ring_all()
        assert (bell.is_set(), bell.take()) == (True, {STANDING})
        Feeder(hub).on_gap()
        assert bell.take() == {STANDING, "one", "two"}


@pytest.fixture
def pair(transactional_db: None) -> list[TaskRecord]:
    return [make_task(make_context(make_tenant())) for _ in range(2)]


async def test_a_change_that_nobody_announced_is_found(pair: list[TaskRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a worker is killed right after its commit."""
    monkeypatch.setattr("taskhub.push.listener.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("taskhub.push.listener.LOOKED_AT", 1)  # several looks for several tasks
    first, second = pair
    lanes = Lanes(1, at_exit=close_my_connection)
    try:
        async with feeding(lanes) as feeder:
            told = feeder.hub.told
            told |= {first.public_id: first.version, second.public_id: second.version, "nobody-waits": 1, "gone": 1}
            with (
                feeder.hub.hints.watch("gone", first.public_id) as mine,
                feeder.hub.hints.watch(second.public_id) as changed,
            ):
                await until(lambda: "nobody-waits" not in told)
                told[second.public_id] -= 1
                await until(changed.is_set)
                told[second.public_id] += 1
                changed.clear()
                told["nobody-waits"] = 1
                await until(lambda: "nobody-waits" not in told)  # it has looked again since
                assert (mine.take(), changed.is_set()) == (set(), False)
    finally:
        lanes.close()


async def test_a_revocation_elsewhere_counts_here_at_once(committed: Remembered) -> None:
    who: dict[str, Any] = {"tenant_id": committed.tenant.pk, "actor": ROOT}
    async with feeding() as feeder:
        await asyncio.to_thread(elsewhere, partial(remember, committed))
        assert committed.principal
        before = time.monotonic()
        await asyncio.to_thread(elsewhere, partial(revoke_token, token_id=committed.token_id, **who))
        await until(lambda: not committed.principal)
        assert time.monotonic() - before < 2  # not the thirty seconds of the cache
        with feeder.hub.hints.watch(standing_topic(committed.context_id)) as heard:
            token, _ = await asyncio.to_thread(elsewhere, partial(issue_token, client="ci", **who))
            await until(heard.is_set)
        await asyncio.to_thread(elsewhere, partial(principal_of, token, ""))
        assert cached_principal(token) is not None
        await asyncio.to_thread(
            elsewhere, partial(set_context_disabled, context_id=committed.context_id, disabled=True, **who)
        )
        await until(lambda: cached_principal(token) is None)


async def test_a_listener_that_comes_back_drops_what_may_have_changed_meanwhile(committed: Remembered) -> None:
    async with feeding() as feeder, Console("consoles") as console:
        await asyncio.to_thread(elsewhere, partial(remember, committed))
        keep(feeder.hub)
        with feeder.hub.hints.watch("abc") as bell:
            end_listeners()
            await until(bell.is_set)
        assert (committed.principal, committed.tools, keeps(feeder.hub)) == (False, False, False)
        assert await console.next() == ["resync"]
        with feeder.hub.hints.watch("abc") as bell:
            notify("t 1 2 3 abc")
            await until(bell.is_set)


# --- consoles


async def test_the_first_news_is_told_at_once() -> None:
    feeder = Feeder(make_hub())
    async with background(feeder._tell_consoles()), Console("tenant.7") as console:
        began = time.monotonic()
        feeder.on_hint("t 7 2 3 abc")
        assert await console.next() == ["task:abc", "tasks"]
        assert time.monotonic() - began < COALESCE_SECONDS * 0.9  # and not after a pause


async def test_however_fast_tasks_move_a_console_hears_five_messages_a_second_and_misses_none(db: None) -> None:
    heard: set[str] = set()
    moments: list[float] = []
    sent = 0
    async with feeding() as feeder, Console("tenant.7") as console, asyncio.timeout(BOUND):
        while len(moments) < 4:
            feeder.on_hint(f"t 7 2 {sent} task-{sent}")
            sent += 1
            try:
                heard |= set(await console.next(0.005))
            except TimeoutError:
                continue
            moments.append(time.monotonic())
        last = sent
        while f"task:task-{last - 1}" not in heard:
            heard |= set(await console.next())
    assert sent > 20
    assert heard == {"tasks", *(f"task:task-{n}" for n in range(sent))}
    assert moments[-1] - moments[0] > 3 * 0.2 - 0.05


async def test_the_same_news_twice_within_a_message_is_told_once(db: None) -> None:
    async with feeding() as feeder, Console("tenant.7") as console:
        for _ in range(3):
            feeder.on_hint("t 7 2 3 abc")
            feeder.on_hint("r 7 2 3 abd")
        assert await console.next() == ["task:abc", "task:abd", "tasks"]
        assert not console.waiting()


async def test_a_flood_makes_no_message_without_end(db: None) -> None:
    async with feeding() as feeder, Console("tenant.7") as console:
        for n in range(1_000):
            feeder.on_hint(f"t 7 2 {n} task-{n}")
        topics = await console.next()
        assert "resync" in topics  # what did not fit is not forgotten
        assert 2 < len(topics) < 250
        feeder.on_hint("t 7 2 3 after")
        assert await console.next() == ["task:after", "tasks"]


async def test_a_tenant_hears_of_its_own_tasks_only_also_in_one_breath(db: None) -> None:
    async with feeding(), Console("tenant.7") as seven, Console("tenant.71") as other, Console("consoles") as all_:
        notify("t 7 2 3 mine;t 71 2 3 theirs;r 7 2 4 too")
        assert await seven.next() == ["task:mine", "task:too", "tasks"]
        assert await other.next() == ["task:theirs", "tasks"]
        notify("k")
        assert await all_.next() == ["workers"]  # and nothing of any task before it
        assert not seven.waiting()
        assert not other.waiting()


@pytest.mark.parametrize(("hint", "topic"), [("c", "servers"), ("p", "clients"), ("k", "workers")])
async def test_news_that_concern_everybody_name_no_tenant(db: None, hint: str, topic: str) -> None:
    async with feeding(), Console("consoles") as all_, Console("tenant.7") as seven:
        notify(hint)
        assert await all_.next() == [topic]
        assert not seven.waiting()
