"""Requests for workers, and interests in resources: each a row that lives for as long as somebody waits."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from django.db import connection

from taskhub.core.errors import LimitReached, Unavailable
from taskhub.core.hints import resource_topic
from taskhub.domain.relays import interests
from taskhub.domain.relays import writes as relays
from taskhub.domain.relays.outcomes import Answered, Failed, Missing, NeedsInput, NewRelay, RelayOutcome
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Interest, Relay
from tests.domain.kit import World, another_client
from tests.store.flushing import superuser


@pytest.fixture(autouse=True)
def _a_worker(world: World) -> None:
    heartbeat("w:1", slots=4, busy=0)


def add(world: World, **fields: Any) -> int:
    given: dict[str, Any] = {
        "id": secrets.randbits(62),
        "context_id": world.context.pk,
        "server_id": world.tool.server_id,
        "method": "resources/read",
        "params": {"uri": "x://1", "state": "\0half"},
        "capabilities": {},
    }
    new = NewRelay(**{**given, **fields})
    relays.add_relay(new)
    return new.id


def claim(world: World, free: int = 10, worker: str = "w:1") -> list[int]:
    return [found.id for found in relays.claim_relays(worker=worker, free={world.tool.server_id: free})]


def sql(statement: str, *params: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


@pytest.mark.parametrize(
    "outcome",
    [
        Answered({"contents": [{"text": "\ufffd"}]}, 5),
        NeedsInput({"k": {"method": "roots/list", "params": {}}}, None),
        Failed(-32603, "no", {"a": [1]}),
        Missing("x://1"),
    ],
)
def test_a_request_is_made_once_and_its_outcome_is_taken_once(world: World, outcome: RelayOutcome) -> None:
    relay_id = add(world)
    assert relays.take_outcome(relay_id) == (True, None)
    (found,) = relays.claim_relays(worker="w:1", free={world.tool.server_id: 5})
    assert (found.id, found.method, found.server_id) == (relay_id, "resources/read", world.tool.server_id)
    assert found.params == {"uri": "x://1", "state": "\ufffdhalf"}
    assert 0 < found.seconds <= relays.RELAY_SECONDS
    assert claim(world) == []
    assert relays.finish_relay(relay_id, outcome, worker="w:1")
    assert relays.take_outcome(relay_id) == (True, outcome)
    assert relays.take_outcome(relay_id) == (False, None)


def test_the_oldest_come_first_and_each_server_has_its_share(world: World) -> None:
    ids = [add(world) for _ in range(3)]
    assert sorted(claim(world, 2)) == sorted(ids[:2])
    assert claim(world, 2, "w:2") == ids[2:]
    assert relays.claim_relays(worker="w:1", free={world.tool.server_id + 1: 5}) == []


def test_only_who_claimed_it_can_finish_it(world: World) -> None:
    relay_id = add(world)
    assert not relays.finish_relay(relay_id, Missing("x"), worker="w:1")
    claim(world)
    assert not relays.finish_relay(relay_id, Missing("x"), worker="w:2")
    assert relays.finish_relay(relay_id, Missing("x"), worker="w:1")
    assert not relays.finish_relay(relay_id, Missing("y"), worker="w:1")


def test_without_a_worker_nobody_waits(world: World) -> None:
    sql("UPDATE worker SET heartbeat_at = now() - interval '1 minute'")
    with pytest.raises(Unavailable, match="No worker is running"):
        add(world)
    assert not Relay.objects.exists()


def test_one_client_has_a_share_and_not_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "CONTEXT_RELAYS", 2)
    add(world)
    add(world)
    with pytest.raises(LimitReached, match="2 requests under way"):
        add(world)
    assert add(another_client(world))
    sql("UPDATE relay SET deadline = now()")
    assert add(world)


def test_what_nobody_waits_for_is_not_claimed_and_swept(world: World) -> None:
    late, kept = add(world), add(world)
    sql("UPDATE relay SET deadline = now() - interval '1 minute' WHERE id = %s", late)
    assert claim(world) == [kept]
    assert relays.sweep_relays() == 1
    assert list(Relay.objects.values_list("id", flat=True)) == [kept]


def test_a_caller_that_left_is_told_to_the_worker(world: World) -> None:
    with superuser(autocommit=True) as raw:
        raw.execute("LISTEN taskhub")
        waiting, running = add(world), add(world)
        relays.drop_relay(waiting)
        assert claim(world) == [running]
        relays.drop_relay(running)
        heard = [notify.payload for notify in raw.notifies(timeout=0.2)]
    server = world.tool.server_id
    assert heard == [f"q {server} {waiting}", f"q {server} {running}", f"g {running}"]
    assert not relays.finish_relay(running, Missing("x"), worker="w:1")


def test_a_crash_may_lose_them_and_nothing_else(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace ORDER BY 1"
        )
        assert cursor.fetchall() == [("interest",), ("relay",), ("server_line",), ("timing",)]


# --- interests


def test_an_interest_is_told_once_renewed_quietly_and_confirmed(world: World) -> None:
    server = world.tool.server_id
    with superuser(autocommit=True) as raw:
        raw.execute("LISTEN taskhub")
        interests.follow("h1", [(server, "x://1"), (server, "x://2")])
        interests.follow("h1", [(server, "x://1"), (server, "x://2")])
        interests.follow("h2", [(server, "x://1")])
        assert interests.followed_resources() == {server: frozenset({"x://1", "x://2"})}
        assert interests.unconfirmed("h1") == {(server, "x://1"), (server, "x://2")}
        interests.mark_followed(server, ["x://1"])
        assert (interests.unconfirmed("h1"), interests.unconfirmed("h2")) == ({(server, "x://2")}, set())
        interests.mark_followed(server, ["x://1"])
        interests.unfollow("h1")
        interests.unfollow("nobody")
        heard = [notify.payload for notify in raw.notifies(timeout=0.2)]
    assert sorted(heard) == sorted(["i", "i", "f h1", "f h2", "i"])
    assert interests.followed_resources() == {server: frozenset({"x://1"})}


def test_an_interest_that_nobody_renews_ends(world: World) -> None:
    interests.follow("h1", [(world.tool.server_id, "x://1")])
    assert relays.sweep_relays() == 0
    sql("UPDATE interest SET expires_at = now() - interval '1 second'")
    assert relays.sweep_relays() == 1
    assert not Interest.objects.exists()


def test_updates_are_told_without_the_uri(world: World) -> None:
    uris = [f"x://{n};t other" for n in range(60)]
    with superuser(autocommit=True) as raw:
        raw.execute("LISTEN taskhub")
        interests.announce_updates(7, uris)
        interests.announce_updates(7, [])
        heard = [notify.payload for notify in raw.notifies(timeout=0.2)]
    assert [payload.count("u ") for payload in heard] == [50, 10]
    assert ";".join(heard).split(";") == [f"u {resource_topic(7, uri)}" for uri in uris]
