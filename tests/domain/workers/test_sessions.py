"""Which worker has the session of a client at a server, and what is told of one that was lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.words import words
from taskhub.domain.workers.reads import fleet
from taskhub.domain.workers.sessions import (
    purge_upstream_sessions,
    session_ended,
    session_opened,
    sessions_at,
    store_memory,
    take_session,
)
from taskhub.domain.workers.writes import goodbye, heartbeat
from taskhub.store.models import UpstreamSession
from tests.factories import make_context, make_server, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def where() -> dict[str, Any]:
    """A server, a client, and two workers that live."""
    tenant = make_tenant()
    for name in ("w1", "w2"):
        heartbeat(name, slots=4, busy=0)
    return {"server_id": make_server(tenant).pk, "context_id": make_context(tenant).pk}


def at_workers() -> dict[str, tuple[int, int]]:
    """How many processes each worker has, with their memory."""
    return {row.name: (row.processes, row.memory) for row in fleet(0).workers}


def test_one_worker_has_it_until_it_has_ended(where: dict[str, Any]) -> None:
    assert take_session(**where, worker="w1") == ""
    assert take_session(**where, worker="w2") is None
    assert take_session(**where, worker="w1") == "", "its own"
    session_ended(**where, worker="w2", why="not w2's to say")
    assert take_session(**where, worker="w2") is None
    session_ended(**where, worker="w1", why="it was idle")
    assert take_session(**where, worker="w2") == "it was idle"
    assert take_session(**where, worker="w1") is None


def test_one_that_was_never_opened_leaves_nothing(where: dict[str, Any]) -> None:
    take_session(**where, worker="w1")
    session_ended(**where, worker="w1", why="")
    assert not UpstreamSession.objects.exists()


def test_a_worker_that_is_gone_has_lost_it(where: dict[str, Any]) -> None:
    take_session(**where, worker="w1")
    goodbye("w1")
    (row,) = sessions_at(where["server_id"])
    assert row.why == words("session_worker_lost")
    assert take_session(**where, worker="w2") == words("session_worker_lost")
    assert [(row.worker, row.why) for row in sessions_at(where["server_id"])] == [("w2", "")]


def test_its_process_and_its_memory_are_shown(where: dict[str, Any]) -> None:
    take_session(**where, worker="w1")
    session_opened(**where, worker="w1", pid=77)
    assert at_workers() == {"w1": (1, 0), "w2": (0, 0)}
    store_memory("w2", {77: 1})
    store_memory("w1", {77: 5_000, 78: 1})
    assert at_workers() == {"w1": (1, 5_000), "w2": (0, 0)}
    (row,) = sessions_at(where["server_id"])
    assert (row.pid, row.memory, row.ended_at) == (77, 5_000, None)
    session_ended(**where, worker="w1", why="its process ended")
    assert at_workers() == {"w1": (0, 0), "w2": (0, 0)}
    (row,) = sessions_at(where["server_id"])
    assert (row.pid, row.memory, row.why) == (None, None, "its process ended")


def test_what_ended_is_forgotten_after_some_days(where: dict[str, Any]) -> None:
    take_session(**where, worker="w1")
    session_ended(**where, worker="w1", why="it was idle")
    assert purge_upstream_sessions() == 0
    UpstreamSession.objects.update(ended_at=timezone.now() - timedelta(days=8))
    assert sessions_at(where["server_id"]) == []
    assert purge_upstream_sessions() == 1


def test_what_a_lost_worker_had_is_forgotten_too(where: dict[str, Any]) -> None:
    take_session(**where, worker="w1")
    UpstreamSession.objects.update(opened_at=timezone.now() - timedelta(days=8))
    assert purge_upstream_sessions() == 0, "it lives"
    goodbye("w1")
    assert purge_upstream_sessions() == 1
