from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import LazySettings

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.worker import claiming, polling
from tests import factories
from tests.store.flushing import _flush_past_the_guards
from tests.support.guarded import Guarded
from tests.upstream.conftest import _gates
from tests.upstream.servers import gates
from tests.worker.kit import Hall

__all__ = ["_flush_past_the_guards", "_gates"]


@pytest.fixture
def hall(transactional_db: None) -> Iterator[Hall]:
    """A client, servers and a worker that is started when the test says so, and stopped in any case."""
    made = Hall()
    try:
        yield made
    finally:
        gates.opened.set()  # a tool that blocks its thread would hold the worker's end up
        made.stop()


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers look for tasks and polls that have become due several times a second, instead of every five seconds."""
    monkeypatch.setattr(claiming, "LONGEST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(claiming, "WHOLE_SECONDS", 0.2)
    monkeypatch.setattr(polling, "LOOK_SECONDS", 0.5)


@pytest.fixture
def drains_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that stops does not wait for seconds for tools that go on."""
    monkeypatch.setattr(claiming, "DRAIN_SECONDS", 1.0)


@pytest.fixture
def guarded(settings: LazySettings) -> Iterator[Guarded]:
    """A server that wants OAuth, and its authorization server."""
    settings.TASKHUB_OAUTH_LOCAL_SERVERS = True
    with Guarded() as server:
        yield server


@pytest.fixture
def admin(hall: Hall) -> Actor:
    """An admin who authorizes servers."""
    person = factories.make_person("admin", hall.context.tenant)
    return Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
