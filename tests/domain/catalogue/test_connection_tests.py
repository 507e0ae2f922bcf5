"""A test of a connection is asked for, taken by one worker, and told as far as it has come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskhub.core.errors import NotFound, Refused
from taskhub.domain.catalogue import connection_tests
from taskhub.domain.catalogue.connection_tests import TEST_SECONDS, WAITS_SECONDS, latest_test, store_steps, take_tests
from taskhub.store.models import ConnectionTest, Event, Server
from tests.factories import WORKER, make_server, make_tenant

pytestmark = pytest.mark.django_db
STEP = {"name": "MCP", "ok": True, "seconds": 0.1, "says": "2026-07-28"}


@pytest.fixture
def server() -> Server:
    return make_server(make_tenant())


def request(server: Server) -> None:
    connection_tests.request_test(tenant_id=server.tenant_id, server_id=server.pk, actor=WORKER)


def turn_back(server: Server, column: str, seconds: float) -> None:
    ConnectionTest.objects.filter(server=server).update(**{column: datetime.now(UTC) - timedelta(seconds=seconds)})


def test_one_worker_takes_it_and_its_steps_are_shown(server: Server) -> None:
    assert latest_test(server.pk) is None
    request(server)
    request(server)
    assert Event.objects.filter(action="server.tested").count() == 1, "the one under way counts"
    (taken,) = take_tests("one")
    assert (taken.server.id, take_tests("two")) == (server.pk, [])
    store_steps(taken, [STEP], ended=False)
    found = latest_test(server.pk)
    assert found is not None
    assert (found.worker, found.steps, found.ended_at, found.lost) == ("one", [STEP], None, False)
    store_steps(taken, [STEP, STEP], ended=True)
    store_steps(taken, [], ended=False)
    found = latest_test(server.pk)
    assert found is not None
    assert (len(found.steps), found.ended_at is None) == (2, False)
    request(server)
    assert [again.server.id for again in take_tests("two")] == [server.pk]


def test_one_that_nobody_takes_or_whose_worker_is_lost_can_be_asked_for_anew(server: Server) -> None:
    request(server)
    turn_back(server, "requested_at", WAITS_SECONDS + 1)
    assert take_tests("one") == []
    assert getattr(latest_test(server.pk), "lost", None) is True
    request(server)
    (taken,) = take_tests("one")
    turn_back(server, "taken_at", TEST_SECONDS + 1)
    assert getattr(latest_test(server.pk), "lost", None) is True
    request(server)
    store_steps(taken, [STEP], ended=True)
    found = latest_test(server.pk)
    assert found is not None
    assert (found.steps, found.worker, found.lost) == ([], "", False), "what a lost worker says late is dropped"


def test_a_disabled_server_is_not_tested_nor_another_tenants(server: Server) -> None:
    with pytest.raises(NotFound):
        connection_tests.request_test(tenant_id=make_tenant().pk, server_id=server.pk, actor=WORKER)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    with pytest.raises(Refused, match="is disabled; enable it first"):
        request(server)
    assert latest_test(server.pk) is None
