"""Polls of deferred calls at a server with OAuth: with the grant of their own call, which may lapse meanwhile."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from taskhub.core.records import Actor
from taskhub.core.states import State
from taskhub.domain.credentials.records import Holder, Way
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.store.models import Deferred, Question, Server, ServerGrant
from tests.domain import kit
from tests.domain.kit import World
from tests.support.guarded import Guarded
from tests.upstream.tasking_server import TaskingServer, text
from tests.worker.granted import asked, authorize, listed, person, protected, result
from tests.worker.kit import Hall, call, ended, in_state, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def upstream(guarded: Guarded) -> TaskingServer:
    """What answers behind the guard: it runs every call as a task."""
    server = TaskingServer(pollIntervalMs=200)
    guarded.inside = server._app()
    return server


def deferred(world: World) -> int:
    task = call(world)
    wait_until(lambda: Deferred.objects.filter(task_id=task).exists(), "the deferred call")
    return task


def polled(upstream: TaskingServer) -> None:
    before = upstream.polls()
    wait_until(lambda: upstream.polls() > before, "a poll")


def test_a_token_that_expires_while_the_servers_task_runs_is_refreshed(
    hall: Hall, guarded: Guarded, upstream: TaskingServer, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    task = deferred(hall.tool(server, "research"))
    guarded.expire("acme")
    polled(upstream)
    assert len(guarded.refreshes) == 1
    upstream.become("completed", result=text("Found."))
    assert "Found." in result(ended(task))
    assert upstream.runs == ["research"]


def test_a_call_whose_grant_ends_while_the_servers_task_runs_waits_for_another(
    hall: Hall, guarded: Guarded, upstream: TaskingServer, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    tasks = [deferred(hall.tool(server, "research")) for _ in range(2)]
    guarded.end("acme")
    for task in tasks:
        assert "needs to be authorized again" in asked(task).params["message"]
        assert "Waiting for somebody to authorize it" in kit.look(task).message
    assert Server.objects.get(pk=server.pk).failures == 0
    for upstream_id in upstream.tasks:
        upstream.become("completed", upstream_id, result=text("Found."))
    assert authorize(server, guarded, "acme", admin) == 2
    for task in tasks:
        assert "Found." in result(ended(task))
    assert Question.objects.filter(kind="authorization").count() == 2
    assert upstream.runs == ["research"] * 2


def test_the_lapsed_grant_of_one_holds_up_no_poll_of_another(
    hall: Hall, guarded: Guarded, upstream: TaskingServer, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.EACH, admin)
    authorize(server, guarded, "lists", admin)
    hall.start()
    listed(server)
    (ada, ada_context), (ben, ben_context) = person(hall, "ada"), person(hall, "ben")
    authorize(server, guarded, "ada", ada, Holder(context_id=ada_context.pk))
    authorize(server, guarded, "ben", ben, Holder(context_id=ben_context.pk))
    tool = hall.tool(server, "research").tool
    adas, bens = (deferred(World(context, tool)) for context in (ada_context, ben_context))
    guarded.end("ada")
    asked(adas)
    polled(upstream)
    for upstream_id in upstream.tasks:
        upstream.become("completed", upstream_id, result=text("Found."))
    assert "Found." in result(ended(bens))
    assert kit.look(adas).state is State.INPUT_REQUIRED
    authorize(server, guarded, "ada", ada, Holder(context_id=ada_context.pk))
    assert "Found." in result(ended(adas))


def test_a_cancellation_that_cannot_be_passed_on_ends_the_call(
    hall: Hall, guarded: Guarded, upstream: TaskingServer, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    task = deferred(hall.tool(server, "research"))
    guarded.end("acme")
    in_state(task, State.INPUT_REQUIRED)
    request_cancel(task, actor=admin)
    assert ended(task).state is State.CANCELLED
    assert upstream.runs == ["research"]


def test_while_the_authorization_server_fails_the_call_waits_and_nobody_is_asked(
    hall: Hall, guarded: Guarded, upstream: TaskingServer, admin: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskhub.worker.polling.REFRESH_SECONDS", 0.2)
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    task = deferred(hall.tool(server, "research"))
    guarded.down = HTTPStatus.SERVICE_UNAVAILABLE
    guarded.expire("acme")
    wait_until(lambda: "authorization can be refreshed" in kit.look(task).message, "the reason")
    assert ServerGrant.objects.get().state == "good"
    assert Server.objects.get(pk=server.pk).failures == 0
    upstream.become("completed", result=text("Found."))
    guarded.down = None
    assert "Found." in result(ended(task))
    assert not Question.objects.filter(kind="authorization").exists()
