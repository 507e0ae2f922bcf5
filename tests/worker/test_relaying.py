"""Requests of callers who wait, made by a worker; and resources it follows for them."""

from __future__ import annotations

import secrets
import threading
from typing import Any

from django.db import connection

from taskhub.core.hints import resource_topic
from taskhub.domain.relays import interests
from taskhub.domain.relays import writes as relays
from taskhub.domain.relays.outcomes import Answered, Failed, NewRelay, RelayOutcome
from taskhub.store.models import Relay, Server
from taskhub.upstream.target import Target
from taskhub.worker import relays as worker_relays
from tests.store.flushing import superuser
from tests.upstream.servers import gates
from tests.upstream.test_offers import LIBRARY
from tests.worker.kit import Hall, call, ended, wait_until


def ask(hall: Hall, server: Server, uri: str, **fields: Any) -> int:
    relay_id = secrets.randbits(62)
    params = {"uri": uri, "responses": None, "state": None, "trace": None}
    relays.add_relay(NewRelay(relay_id, hall.context.pk, server.pk, "resources/read", params, {}), **fields)
    return relay_id


def outcome(relay_id: int) -> RelayOutcome:
    return wait_until(lambda: relays.take_outcome(relay_id)[1], "the outcome")


def text(found: RelayOutcome) -> str:
    assert isinstance(found, Answered), found
    return str(found.result["contents"][0]["text"])


def test_a_request_is_made_at_its_server(hall: Hall) -> None:
    server = hall.server(LIBRARY)
    hall.start()
    assert text(outcome(ask(hall, server, "lib://note"))) == "a note"
    assert text(outcome(ask(hall, server, "lib://page/7"))) == "page 7"
    assert not Relay.objects.exists()


def test_a_caller_that_leaves_stops_the_request(hall: Hall) -> None:
    server = hall.server(LIBRARY)
    hall.start()
    relay_id = ask(hall, server, "lib://held/x")
    assert gates.entered.wait(10)
    relays.drop_relay(relay_id)
    assert gates.cancelled.wait(10)
    assert text(outcome(ask(hall, server, "lib://note"))) == "a note"


def test_a_slow_server_holds_up_nobody_elses_requests(hall: Hall, monkeypatch: Any) -> None:
    monkeypatch.setattr(worker_relays, "AT_ONCE", 2)
    slow, quick = hall.server(LIBRARY), hall.server(Target("python", "tests.upstream.library:bare"))
    hall.start()
    held = [ask(hall, slow, f"lib://held/{number}") for number in range(3)]
    wait_until(lambda: len(gates.starts) == 2, "two to be held")
    assert text(outcome(ask(hall, quick, "x://1"))) == "bare"
    assert len(gates.starts) == 2
    gates.opened.set()
    assert [text(outcome(one)) for one in held] == ["let go"] * 3


def test_a_server_that_says_nothing_is_given_up_in_time(hall: Hall) -> None:
    server = hall.server(LIBRARY)
    hall.start()
    found = outcome(ask(hall, server, "lib://held/x", seconds=0.5))
    assert isinstance(found, Failed)
    assert "gave no answer in time" in found.message


def test_a_worker_that_stops_says_so(hall: Hall) -> None:
    server = hall.server(LIBRARY)
    hall.start()
    relay_id = ask(hall, server, "lib://held/x")
    assert gates.entered.wait(10)
    hall.stop()
    found = outcome(relay_id)
    assert isinstance(found, Failed)
    assert found.message == "The worker was stopped while it asked the server; try again"


def test_a_request_whose_hint_was_lost_is_found(hall: Hall, monkeypatch: Any) -> None:
    monkeypatch.setattr(worker_relays, "LOOK_SECONDS", 0.1)
    server = hall.server(LIBRARY)
    hall.start()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO relay (id, context_id, server_id, method, params, capabilities, deadline) VALUES"
            " (7, %s, %s, 'resources/read', '{\"uri\": \"lib://note\"}', '{}', now() + interval '1 minute')",
            [hall.context.pk, server.pk],
        )
    assert text(outcome(7)) == "a note"


def test_what_a_stream_wants_is_followed_confirmed_and_told(hall: Hall) -> None:
    server = hall.server(LIBRARY)
    hall.start()
    touch = hall.tool(server, "touch")
    with superuser(autocommit=True) as raw:
        raw.execute("LISTEN taskhub")
        heard: list[str] = []
        wanted = [(server.pk, "lib://note")]
        interests.follow("h1", wanted)
        wait_until(lambda: not interests.unconfirmed("h1"), "the server to agree")
        # A second stream for the same resource is told at once: nothing new need be agreed.
        interests.follow("h2", wanted)
        wait_until(lambda: not interests.unconfirmed("h2"), "the second to be confirmed")
        ended(call(touch))

        def told() -> bool:
            for notify in raw.notifies(timeout=0.05):
                heard.extend(notify.payload.split(";"))
            return f"u {resource_topic(server.pk, 'lib://note')}" in heard

        wait_until(told, "the update")
    assert {"f h1", "f h2"} <= set(heard)


def test_it_stops_with_following_under_way(hall: Hall) -> None:
    server = hall.server(LIBRARY)
    hall.start()
    interests.follow("h1", [(server.pk, "lib://note")])
    wait_until(lambda: not interests.unconfirmed("h1"), "the server to agree")
    before = threading.active_count()
    hall.stop()
    assert threading.active_count() < before
