"""When the calls of a server wait, and which one tries it again; two workers have one try."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from taskhub.core.errors import NotFound
from taskhub.core.records import Actor
from taskhub.core.states import Door, State
from taskhub.core.words import words
from taskhub.domain.catalogue import breakers
from taskhub.domain.catalogue import writes as policies
from taskhub.domain.catalogue.breakers import OPENS_AFTER, leave_probe, store_failure, store_reached, take_probe
from taskhub.domain.catalogue.sync import connect_server, store_problem, store_snapshot
from taskhub.domain.catalogue.view import forget_catalogues, tool_by_id
from taskhub.store.models import Event, Server
from tests.domain import kit
from tests.domain.kit import Crew
from tests.factories import make_server, make_tenant, make_tool
from tests.support.hub import wait_until

ADA = Actor(name="ada", door=Door.WEB)
GONE = "ConnectError: All connection attempts failed"


@pytest.fixture
def server(transactional_db: None) -> Server:
    return make_server(make_tenant(), "files")


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(2)
    yield made
    made.close()


def fail(server: Server, times: int = 1, *, probing: bool = False, problem: str = GONE) -> list[bool]:
    waits = [store_failure(server.pk, problem, probing=probing) for _ in range(times)]
    server.refresh_from_db()
    return waits


def due(server: Server) -> None:
    """Its time to wait is over."""
    Server.objects.filter(pk=server.pk).update(retry_at=datetime.now(UTC) - timedelta(seconds=1), probe_until=None)


def told(*actions: str) -> list[tuple[Any, Any]]:
    return list(Event.objects.filter(action__in=actions).order_by("id").values_list("before", "after"))


def left(server: Server) -> float:
    """Seconds until it is tried."""
    server.refresh_from_db()
    assert server.retry_at is not None
    return (server.retry_at - datetime.now(UTC)).total_seconds()


def test_it_opens_at_the_last_of_so_many_in_a_row_and_what_comes_after_waits(server: Server) -> None:
    assert fail(server, OPENS_AFTER - 1) == [False] * (OPENS_AFTER - 1)
    assert (server.open_since, server.state, breakers.troubled_servers()[0].seconds) == (None, "ready", None)
    assert fail(server) == [False], "whoever opens it has failed as those before"
    assert (server.state, server.problem) == ("unreachable", GONE)
    assert told("server.breaker.opened") == [(None, {"failures": OPENS_AFTER, "problem": GONE})]
    before = server.retry_at
    assert fail(server, 3) == [True] * 3
    assert (server.failures, server.retry_at) == (OPENS_AFTER, before), "what was under way says nothing new"
    assert len(told("server.breaker.opened")) == 1


def test_a_sign_of_life_in_between_begins_the_row_anew(server: Server) -> None:
    for _ in range(3):
        fail(server, OPENS_AFTER - 1)
        store_reached(server.pk)
    fail(server, OPENS_AFTER - 1)
    store_snapshot(server.pk, protocol="2026-07-28", info={}, tools=())
    fail(server, OPENS_AFTER - 1)
    store_problem(server.pk, "no list either")
    assert server.open_since is None
    assert told("server.breaker.opened", "server.breaker.closed") == []


def test_it_waits_for_twice_as_long_each_time_up_to_a_limit_and_never_for_exactly_as_long(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakers, "JITTER_PERCENT", 0)
    fail(server, OPENS_AFTER)
    paused = [left(server)]
    for _ in range(6):
        due(server)
        assert take_probe(server.pk)
        assert fail(server, probing=True) == [True]
        assert server.probe_until is None
        paused.append(left(server))
    assert [round(seconds) for seconds in paused] == [5, 10, 20, 40, 60, 60, 60]
    Server.objects.filter(pk=server.pk).update(failures=2_000_000)
    fail(server, probing=True)
    assert round(left(server)) == 60
    monkeypatch.undo()
    spread = {round(breakers._pause(OPENS_AFTER), 3) for _ in range(50)}
    assert len(spread) > 10
    assert min(spread) >= 4.0
    assert max(spread) <= 6.0


def test_the_last_reason_is_the_one_that_is_kept_and_one_that_no_text_holds_costs_nothing(server: Server) -> None:
    fail(server, OPENS_AFTER, problem="first")
    assert fail(server, probing=True, problem="nul \0 and \ud800" + "x" * 2_000) == [True]
    assert server.problem.startswith("nul \ufffd and \ufffd")
    assert len(server.problem) == 1_000


def test_a_failed_try_of_a_breaker_that_was_closed_meanwhile_is_the_first_of_a_row(server: Server) -> None:
    fail(server, OPENS_AFTER)
    store_reached(server.pk)
    assert fail(server, probing=True) == [False]
    assert (server.failures, server.open_since) == (1, None)


@pytest.mark.parametrize(
    "how",
    [
        lambda server: store_reached(server.pk),
        lambda server: store_snapshot(server.pk, protocol="2026-07-28", info={}, tools=()),
        lambda server: policies.set_server_enabled(
            tenant_id=server.tenant_id, server_id=server.pk, enabled=False, actor=ADA
        ),
        lambda server: policies.set_server_token(
            tenant_id=server.tenant_id, server_id=server.pk, token="new", actor=ADA
        ),
        lambda server: connect_server(
            tenant_id=server.tenant_id, name=server.name, transport="http", target="http://b.example/mcp", actor=ADA
        ),
    ],
    ids=["a call", "a list", "disabled", "another token", "another address"],
)
def test_a_sign_of_life_and_another_server_close_it(server: Server, how: Any) -> None:
    Server.objects.filter(pk=server.pk).update(transport="http", target="http://a.example/mcp")
    fail(server, OPENS_AFTER)
    since = server.open_since
    assert since is not None
    how(server)
    server.refresh_from_db()
    assert (server.failures, server.open_since, server.retry_at, server.probe_until) == (0, None, None, None)
    assert told("server.breaker.closed") == [({"failures": OPENS_AFTER, "since": since.isoformat()}, None)]
    assert breakers.troubled_servers() == []
    store_reached(server.pk)
    assert len(told("server.breaker.closed")) == 1


def test_only_one_of_two_workers_tries_in_each_of_many_rounds(server: Server, crew: Crew) -> None:
    fail(server, OPENS_AFTER)
    assert take_probe(server.pk) is False, "not before its time"
    for _ in range(30):
        due(server)
        take = partial(take_probe, server.pk)
        assert sorted(crew.race(take, take)) == [False, True]
        assert take_probe(server.pk) is False
        (known,) = breakers.troubled_servers()
        assert known.seconds is not None
        assert known.seconds > breakers.PROBE_SECONDS - 5


def test_two_failures_at_once_are_two_and_open_it_once(server: Server, crew: Crew) -> None:
    for _ in range(10):
        store_reached(server.pk)
        fail(server, OPENS_AFTER - 2)
        failing = partial(store_failure, server.pk, GONE, probing=False)
        assert crew.race(failing, failing) == [False, False]
        server.refresh_from_db()
        assert server.open_since is not None
    assert len(told("server.breaker.opened")) == 10


def test_a_try_at_the_moment_it_closes_leaves_it_closed(server: Server, crew: Crew) -> None:
    for _ in range(20):
        fail(server, OPENS_AFTER)
        due(server)
        crew.race(partial(take_probe, server.pk), partial(store_reached, server.pk))
        server.refresh_from_db()
        assert (server.open_since, server.retry_at, server.probe_until) == (None, None, None)


def test_the_try_of_a_worker_that_died_or_left_it_is_anothers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakers, "PROBE_SECONDS", 0.2)
    fail(server, OPENS_AFTER)
    due(server)
    assert take_probe(server.pk)
    wait_until(lambda: take_probe(server.pk), "its time to be over")
    monkeypatch.setattr(breakers, "PROBE_SECONDS", 60.0)
    due(server)
    assert take_probe(server.pk)
    leave_probe(server.pk)
    assert take_probe(server.pk)


def test_a_person_lets_it_be_tried_at_once_and_only_where_it_is_theirs(server: Server) -> None:
    ask = partial(breakers.request_probe, server_id=server.pk, actor=ADA)
    assert ask(tenant_id=server.tenant_id) is False
    fail(server, OPENS_AFTER)
    with pytest.raises(NotFound):
        ask(tenant_id=make_tenant().pk)
    assert take_probe(server.pk) is False
    assert ask(tenant_id=server.tenant_id) is True
    assert take_probe(server.pk) is True
    assert told("server.probe.requested") == [(None, None)]


def test_a_call_that_is_made_meanwhile_says_what_it_waits_for(server: Server) -> None:
    world = kit.World(kit.factories.make_context(server.tenant), make_tool(server))
    assert kit.create(world).message == ""
    fail(server, OPENS_AFTER)
    forget_catalogues()
    tool = tool_by_id(world.tool.id)
    assert tool is not None
    task = kit.create(kit.World(world.context, tool))
    assert (task.state, task.message) == (State.QUEUED, words("waiting_server"))
    assert kit.look(task.id).message == words("waiting_server")


def test_a_disabled_server_is_nobodys_trouble(server: Server) -> None:
    fail(server, OPENS_AFTER)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    assert breakers.troubled_servers() == []


@pytest.mark.parametrize(
    "half",
    [{"open_since": datetime.now(UTC)}, {"retry_at": datetime.now(UTC)}, {"failures": -1}, {"failures": 0}],
    ids=lambda half: next(iter(half)),
)
def test_half_a_breaker_is_refused_by_the_database(server: Server, half: dict[str, Any]) -> None:
    if half == {"failures": 0}:
        fail(server, OPENS_AFTER)
    with pytest.raises(IntegrityError, match="server_breaker_whole"), transaction.atomic():
        Server.objects.filter(pk=server.pk).update(**half)
