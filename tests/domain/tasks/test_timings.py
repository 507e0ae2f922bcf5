"""How long calls took and waited, added up by many workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from taskhub.core.timings import BOUNDS, ServerTiming, Timing, TimingKind
from taskhub.domain.tasks.timings import server_timings, store_timings
from taskhub.store.models import Server
from tests.domain.kit import Crew
from tests.factories import make_server, make_tenant


def counts(**at: int) -> tuple[int, ...]:
    """So many in the buckets `b0`, `b1`, ..."""
    found = [0] * (len(BOUNDS) + 1)
    for place, count in at.items():
        found[int(place[1:])] = count
    return tuple(found)


def timing(server: Server, kind: TimingKind = TimingKind.FINISHED, seconds: float = 0.5, **at: int) -> Timing:
    return Timing(server.pk, kind, counts(**at), seconds)


def test_what_is_stored_again_is_added(db: None) -> None:
    one, two = (make_server(make_tenant(), name) for name in ("one", "two"))
    store_timings([timing(one, b0=2, b16=1), timing(two, b3=5, seconds=2.0)])
    store_timings([timing(one, b0=1, b2=7, seconds=1.0), timing(one, TimingKind.WAITED, b1=1)])
    assert server_timings() == [
        ServerTiming("one", TimingKind.FINISHED, counts(b0=3, b2=7, b16=1), 1.5),
        ServerTiming("one", TimingKind.WAITED, counts(b1=1), 0.5),
        ServerTiming("two", TimingKind.FINISHED, counts(b3=5), 2.0),
    ]


def test_servers_of_one_name_are_counted_together(db: None) -> None:
    """Of several tenants: a scraper would refuse the same name twice."""
    first, second = (make_server(make_tenant(slug), "same") for slug in ("here", "there"))
    store_timings([timing(first, b0=1), timing(second, b0=2, b1=3, seconds=0.25)])
    assert server_timings() == [ServerTiming("same", TimingKind.FINISHED, counts(b0=3, b1=3), 0.75)]


def test_what_a_server_that_is_gone_took_goes_with_it(db: None) -> None:
    gone, kept = (make_server(make_tenant(), name) for name in ("gone", "kept"))
    store_timings([timing(gone, b0=1), timing(kept, b0=1)])
    late = timing(gone, b1=1)
    gone.delete()
    store_timings([late, timing(kept, b0=1)])
    assert server_timings() == [ServerTiming("kept", TimingKind.FINISHED, counts(b0=2), 1.0)]


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew(4)
    yield crew
    crew.close()


def test_workers_that_add_at_once_lose_nothing_and_wait_for_no_circle(transactional_db: None, crew: Crew) -> None:
    """Each names the servers in an order of its own."""
    tenant = make_tenant()
    servers = [make_server(tenant, f"server-{number}") for number in range(6)]
    for turn in range(10):
        orders = [servers[turn % 6 :] + servers[: turn % 6], servers[::-1], servers[3:] + servers[:3], servers]
        work = [lambda order=order: store_timings([timing(server, b0=1) for server in order]) for order in orders]
        assert crew.race(*work) == [None] * 4
    assert [(found.counts, found.seconds) for found in server_timings()] == [(counts(b0=40), 20.0)] * 6


def test_the_counts_are_not_in_the_databases_log(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relpersistence FROM pg_class WHERE oid = 'timing'::regclass")
        assert cursor.fetchone() == ("u",)
