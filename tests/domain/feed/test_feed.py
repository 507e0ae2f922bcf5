"""The feed: every committed event comes to a consumer once, in order, whatever ends in the middle."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from django.db import connection

from taskhub.core.errors import Unavailable
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit.record import record_event
from taskhub.domain.feed.reading import FeedEvent, begin_feed, read_feed
from taskhub.store.models import FeedConsumer, Tenant
from tests.domain import kit
from tests.domain.cost import statements
from tests.factories import make_tenant
from tests.store import raw as sql
from tests.store.flushing import superuser
from tests.store.raw import refused

pytestmark = pytest.mark.django_db(transaction=True)

MIA = Actor(name="mia", door=Door.WEB)
WANTED = ("client.enabled", "client.disabled")
LATE = "INSERT INTO event (tenant_id, action, actor, door) VALUES (%s, 'client.enabled', 'mia', 'web') RETURNING id"


class Reader:
    """A consumer that remembers what it was given, and leaves a tenant in the database for each event."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        begin_feed("it")

    def follow(self, events: Sequence[FeedEvent]) -> None:
        for event in events:
            Tenant.objects.create(slug=f"of-{event.id}", name="made of an event")
        self.seen += [event.id for event in events]

    def read(self, most: int = 1_000) -> int:
        return read_feed("it", WANTED, self.follow, most=most)

    def until(self, *events: int) -> None:
        """Read on until these were given: a transaction of another test's database holds up positions above its own."""
        kit.wait_until(lambda: self.read() >= 0 and set(events) <= set(self.seen))

    def left(self) -> list[int]:
        """The events of which something is in the database, one for each time."""
        slugs = Tenant.objects.filter(slug__startswith="of-").values_list("slug", flat=True)
        return sorted(int(slug.removeprefix("of-")) for slug in slugs)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def happen(tenant: Tenant, action: str = "client.enabled") -> int:
    return record_event(action, tenant_id=tenant.pk, target="it", actor=MIA)


def test_each_wanted_event_comes_once_in_order_and_none_of_before(tenant: Tenant) -> None:
    reader = Reader()
    before = happen(tenant)
    reader.until(before)
    FeedConsumer.objects.all().delete()
    Tenant.objects.filter(slug__startswith="of-").delete()
    reader = Reader()  # begins anew: behind what was there
    events = [happen(tenant, action) for action in (*WANTED, "person.signed.out", "client.enabled")]
    reader.until(events[3])
    assert reader.seen == [events[0], events[1], events[3]]
    assert reader.read() == 0
    assert reader.left() == reader.seen


def test_batches_end_where_they_may_and_what_is_not_wanted_is_passed(tenant: Tenant) -> None:
    reader = Reader()
    events = [happen(tenant, "person.signed.out" if n % 3 else "client.enabled") for n in range(7)]
    sizes: list[int] = []

    def read() -> bool:
        sizes.append(reader.read(most=2))
        return events[6] in reader.seen

    kit.wait_until(read)
    assert reader.seen == [events[0], events[3], events[6]]
    assert max(sizes) == 2


def test_a_consumer_that_dies_before_its_place_is_moved_loses_nothing_and_does_nothing_twice(tenant: Tenant) -> None:
    reader = Reader()
    events = [happen(tenant), happen(tenant)]
    pids: list[int] = []

    def follow(given: Sequence[FeedEvent]) -> None:
        reader.follow(given)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchone()[0])
        with superuser(autocommit=True) as raw:
            raw.execute("SELECT pg_terminate_backend(%s, 5000)", (pids[-1],))

    def dies() -> bool:
        try:
            return read_feed("it", WANTED, follow) > 0
        except Unavailable:
            return True

    kit.wait_until(dies)
    assert len(pids) == 1
    assert reader.left() == []
    reader.seen.clear()
    reader.until(*events)
    assert reader.seen == events == reader.left()


def test_one_process_reads_at_a_time(tenant: Tenant) -> None:
    reader = Reader()
    event = happen(tenant)
    reading, done = threading.Event(), threading.Event()

    def slow(given: Sequence[FeedEvent]) -> None:
        reader.follow(given)
        reading.set()
        assert done.wait(kit.BOUND)

    def first() -> None:
        kit.wait_until(lambda: read_feed("it", WANTED, slow) > 0)
        connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert reading.wait(kit.BOUND)
    try:
        assert read_feed("it", WANTED, lambda given: pytest.fail("it is being read")) == 0
    finally:
        done.set()
        thread.join()
    assert reader.read() == 0
    assert reader.left() == [event]


def test_a_transaction_that_commits_late_with_a_lower_id_is_not_passed_over(tenant: Tenant) -> None:
    reader = Reader()
    with sql.connect() as late:
        row = late.execute(LATE, (tenant.pk,)).fetchone()
        assert row is not None
        on_time = happen(tenant)
        assert row[0] < on_time
        reader.read()
        assert reader.seen == []
        late.commit()
    reader.until(on_time)
    assert reader.seen == [row[0], on_time]


def test_what_is_undone_never_comes(tenant: Tenant) -> None:
    reader = Reader()
    with sql.connect() as undone:
        undone.execute(LATE, (tenant.pk,))
        undone.rollback()
    event = happen(tenant)
    reader.until(event)
    assert reader.seen == [event]


def test_an_idle_consumer_asks_once_and_writes_nothing(tenant: Tenant) -> None:
    reader = Reader()
    reader.until(happen(tenant))
    assert statements(reader.read) == 1
    for _ in range(20):
        happen(tenant, "person.signed.out")
    kit.wait_until(lambda: reader.read() > 0)
    # BEGIN, the place, the events, the new place, COMMIT; and before that whether there is anything
    for _ in range(20):
        happen(tenant)
    kit.wait_until(lambda: statements(lambda: read_feed("it", WANTED, lambda given: None)) in {1, 6})
    assert statements(reader.read) == 1


def test_it_does_not_go_back(tenant: Tenant) -> None:
    Reader().until(happen(tenant))
    with sql.connect() as raw, refused("TH017"):
        raw.execute("UPDATE feed_consumer SET xid = xid - 1")


def test_a_new_consumer_is_told_of_nothing_that_is_sealed(tenant: Tenant) -> None:
    """Also where this cluster has not come to the positions of the log, which came from another."""
    with superuser() as raw:
        raw.execute("SET session_replication_role = replica")
        raw.execute(
            "INSERT INTO event (tenant_id, action, actor, door, xid) VALUES (%s, 'x', 'mia', 'web', 2000000000000)",
            (tenant.pk,),
        )
        raw.execute(
            "INSERT INTO seal (from_xid, to_xid, count, event_ids, leaves, root, previous, signature, key_id)"
            " VALUES (0, 2000000000001, 0, '{}', '', '', '', '', '')"
        )
    begin_feed("it")
    place = FeedConsumer.objects.get()
    assert (place.xid, place.event_id) == (2_000_000_000_000, 2**63 - 1)


def test_after_a_move_of_the_log_it_goes_on(tenant: Tenant) -> None:
    """In a new cluster, transactions are counted from the beginning; the log's positions go on behind all of before."""
    reader = Reader()
    reader.until(happen(tenant))
    with superuser() as raw:
        above = raw.execute("SELECT max(xid) + 1000000, max(id) FROM event").fetchone()
        raw.execute("SELECT event_moved(%s, %s)", above)
    try:
        event = happen(tenant)
        reader.until(event)
        assert reader.seen[-1] == event
        assert FeedConsumer.objects.get().xid > 1_000_000
    finally:
        with superuser() as raw:
            raw.execute("ALTER TABLE event ALTER COLUMN xid SET DEFAULT pg_current_xact_id()::text::bigint")
