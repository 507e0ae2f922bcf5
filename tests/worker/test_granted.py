"""Calls of a real server with OAuth, by a real worker: authorized, refreshed, refused, and never mixed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from taskhub.core.records import Actor
from taskhub.core.states import State
from taskhub.domain.credentials import writes
from taskhub.domain.credentials.records import Holder, OAuthSettings, Way
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.relays.outcomes import Failed, RelayClaim
from taskhub.store.models import Event, Question, Server, ServerGrant, ServerOAuth, Task, Tool
from tests.domain import kit
from tests.domain.kit import World
from tests.support.guarded import Guarded
from tests.worker.granted import asked, authorize, listed, person, protected, result
from tests.worker.kit import Hall, call, ended, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def state(server: Server) -> str:
    return Server.objects.get(pk=server.pk).state


def test_a_call_waits_until_an_admin_has_authorized_the_server_for_all(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    hall.start()
    assert state(server) == "unauthorized"
    assert Server.objects.get(pk=server.pk).problem == "Nobody has authorized it yet"
    task = call(hall.tool(server, "whoami"))
    question = asked(task)
    assert question.audience == "operator"
    assert "needs to be authorized" in kit.look(task).message
    assert authorize(server, guarded, "acme", admin) == 1
    assert "acme" in result(ended(task))
    listed(server)
    (given,) = Event.objects.filter(action="grant.given")
    assert given.after
    assert (given.target, given.after["for"], given.actor) == (server.name, "everyone", admin.name)


def test_an_expired_token_is_refreshed_before_the_call_and_its_rotation_stored(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    ServerGrant.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    world = hall.tool(server, "whoami")
    for task in [call(world) for _ in range(5)]:
        assert "acme" in result(ended(task))
    assert len(guarded.refreshes) == 1
    ServerGrant.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert "acme" in result(ended(call(world)))
    assert guarded.refreshes[1:] == [token for token in guarded.issued if token.startswith("refresh-")][1:2]
    assert Event.objects.filter(action="grant.refreshed").count() == 1


def test_a_call_waits_as_long_as_the_authorization_server_wants(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    guarded.down, guarded.later = HTTPStatus.TOO_MANY_REQUESTS, "90"
    ServerGrant.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    task = call(hall.tool(server, "whoami"))
    wait_until(lambda: "wants to be asked" in kit.look(task).message, "the reason")
    found = kit.look(task)
    assert found.state is State.QUEUED
    assert Task.objects.get(pk=task).runnable_at - datetime.now(UTC) > timedelta(seconds=60)
    assert guarded.turned_away == 1


def test_a_token_that_the_server_refuses_is_refreshed_once(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    guarded.expire("acme")
    assert "acme" in result(ended(call(hall.tool(server, "whoami"))))
    assert len(guarded.refreshes) == 1
    assert guarded.called == ["acme"]


def test_a_call_whose_authorization_was_ended_waits_for_a_new_one_instead_of_failing(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    guarded.end("acme")
    task = call(hall.tool(server, "whoami"))
    assert "again" in asked(task).params["message"]
    assert ServerGrant.objects.get().state == "lapsed"
    (event,) = Event.objects.filter(action="grant.lapsed")
    assert event.after
    assert event.after["for"] == "everyone"
    authorize(server, guarded, "acme-two", admin)
    assert "acme-two" in result(ended(task))
    for token in guarded.issued:
        assert token not in str(list(Event.objects.values_list("before", "after", "reason")))


@pytest.mark.parametrize("way", [Way.SHARED, Way.EACH])
def test_an_authorization_whose_new_token_the_server_refuses_for_its_lists_is_over(
    hall: Hall, guarded: Guarded, admin: Actor, way: Way
) -> None:
    server = protected(hall, guarded, way, admin)
    authorize(server, guarded, "acme", admin)
    guarded.refuses = True
    hall.start()
    wait_until(lambda: ServerGrant.objects.get().state == "lapsed", "a grant to be authorized again")
    assert ServerGrant.objects.get().problem == "the server refuses its access token"
    assert len(guarded.refreshes) == 1
    says = "again: the server refuses its access token"
    wait_until(lambda: says in Server.objects.get(pk=server.pk).problem, "the reason")
    assert Event.objects.filter(action="grant.lapsed").count() == 1
    guarded.refuses = False
    authorize(server, guarded, "acme-two", admin)
    listed(server)


def test_a_grant_that_is_revoked_while_the_call_waits_for_approval_is_asked_for_anew(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    world = hall.tool(server, "whoami", asks={"quorum": 1})
    task = call(world)
    approval = kit.opened(task)
    grant = ServerGrant.objects.get()
    assert writes.revoke(tenant_id=server.tenant_id, server_id=server.pk, grant_id=grant.pk, actor=admin)
    assert guarded.revoked
    decide_approval(task, approval, approve=True, actor=admin)
    wait_until(lambda: Question.objects.filter(task_id=task, kind="authorization", state="open").exists(), "a question")
    assert guarded.called == []
    authorize(server, guarded, "acme", admin)
    assert "acme" in result(ended(task))
    assert guarded.called == ["acme"]


def test_two_clients_have_two_grants_which_are_never_mixed(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.EACH, admin)
    authorize(server, guarded, "lists", admin)
    hall.start()
    listed(server)
    ada, ada_context = person(hall, "ada")
    ben, ben_context = person(hall, "ben")
    tool = hall.tool(server, "whoami").tool
    worlds = {"ada": World(ada_context, tool), "ben": World(ben_context, tool)}
    tasks = {name: [call(world) for _ in range(3)] for name, world in worlds.items()}
    for task in (each for several in tasks.values() for each in several):
        asked(task)
    assert authorize(server, guarded, "ada-upstream", ada, Holder(context_id=ada_context.pk)) == 3
    for task in tasks["ada"]:
        assert "ada-upstream" in result(ended(task))
    assert all(kit.look(task).state is State.INPUT_REQUIRED for task in tasks["ben"])
    assert authorize(server, guarded, "ben-upstream", ben, Holder(context_id=ben_context.pk)) == 3
    for task in tasks["ben"]:
        assert "ben-upstream" in result(ended(task))
    mixed = [call(worlds[name]) for name in ("ada", "ben") * 10]
    for number, task in enumerate(mixed):
        assert f"{('ada', 'ben')[number % 2]}-upstream" in result(ended(task))
    assert "lists" not in guarded.called


def test_lists_that_were_refused_are_read_when_an_admin_has_authorized_them(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.EACH, admin)
    hall.start()
    wait_until(lambda: state(server) == "unauthorized", "a refusal")
    assert Server.objects.get(pk=server.pk).problem == "Nobody has authorized it for its lists yet"
    assert Event.objects.get(action="server.unauthorized").target == server.name
    authorize(server, guarded, "lists", admin)
    listed(server)


@pytest.mark.parametrize("way", [Way.SHARED, Way.EACH])
def test_a_connection_that_needs_more_scopes_asks_an_admin_for_them(
    hall: Hall, guarded: Guarded, admin: Actor, way: Way
) -> None:
    server = protected(hall, guarded, way, admin)
    authorize(server, guarded, "lists", admin)
    guarded.wants_more = "/"
    hall.start()
    wait_until(lambda: state(server) == "unauthorized", "a refusal")
    assert Server.objects.get(pk=server.pk).problem.endswith("authorized again: it wants more scopes: more")
    assert ServerOAuth.objects.get().lacking == "tools more"
    authorize(server, guarded, "lists", admin, scopes=ServerOAuth.objects.get().lacking)
    listed(server)
    assert ServerOAuth.objects.get().lacking == ""


def test_a_call_whose_connection_needs_more_scopes_waits_for_them(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    guarded.wants_more = "/"
    hall.start()
    task = call(hall.tool(server, "whoami"))
    question = asked(task)
    assert question.params["scopes"] == "tools more"
    assert (guarded.called, Server.objects.get(pk=server.pk).failures) == ([], 0)
    authorize(server, guarded, "acme", admin, scopes="tools more")
    assert "acme" in result(ended(task))


def test_a_list_that_needs_more_scopes_is_read_with_them(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    guarded.wants_more = "tools/list"
    hall.start()
    wait_until(lambda: ServerOAuth.objects.get().lacking == "tools more", "what it lacks")
    shown = Server.objects.get(pk=server.pk)
    assert (shown.state, "HTTP 403 Forbidden" in shown.incomplete) == ("ready", True)
    authorize(server, guarded, "acme", admin, scopes="tools more")
    wait_until(lambda: Tool.objects.filter(server=server, name="whoami").exists(), "the list")
    assert (ServerOAuth.objects.get().lacking, Server.objects.get(pk=server.pk).incomplete) == ("", "")


def test_lists_that_need_scopes_beyond_those_that_an_admin_named_say_so(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin, scopes="tools")
    authorize(server, guarded, "acme", admin)
    guarded.wants_more = "/"
    hall.start()
    wait_until(lambda: state(server) == "unauthorized", "a refusal")
    problem = Server.objects.get(pk=server.pk).problem
    assert "none but the scopes that an admin named, without more. HTTP 403" in problem
    assert ServerOAuth.objects.get().lacking == ""


def test_a_call_that_needs_more_scopes_waits_for_them_and_others_go_on(
    hall: Hall, guarded: Guarded, admin: Actor
) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    task = call(hall.tool(server, "delete"))
    question = asked(task)
    assert question.params["message"].endswith("to be authorized again: it wants more scopes: more")
    assert question.params["scopes"] == "tools more"
    assert guarded.called == []
    assert "acme" in result(ended(call(hall.tool(server, "whoami"))))
    assert ServerGrant.objects.get().state == "good"
    authorize(server, guarded, "acme", admin, scopes="tools more")
    assert "acme" in result(ended(task))
    assert ServerGrant.objects.get().scopes == "tools more"
    authorize(server, guarded, "acme", admin)
    assert ServerGrant.objects.get().scopes == "tools more", "what it had before is asked for again"


def test_scopes_beyond_those_that_an_admin_named_are_not_asked_for(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin, scopes="tools")
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    task = ended(call(hall.tool(server, "delete")))
    assert task.state is State.FAULTED
    assert "none but the scopes that an admin named, without more" in str(task.error_json)


def test_client_credentials_need_nobody(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    guarded.robots = True
    server = protected(hall, guarded, Way.CLIENT, admin, client_id="robot", secret="robots-secret")
    hall.start()
    listed(server)
    assert "robot" in result(ended(call(hall.tool(server, "whoami"))))
    writes.set_oauth(
        tenant_id=server.tenant_id,
        server_id=server.pk,
        wanted=OAuthSettings(Way.CLIENT, client_id="robot", secret="wrong-secret"),
        actor=admin,
    )
    task = call(hall.tool(server, "whoami"))
    assert "invalid_client" in asked(task).params["message"]
    assert "wrong-secret" not in str(list(Event.objects.values_list("before", "after", "reason")))
    writes.set_oauth(
        tenant_id=server.tenant_id,
        server_id=server.pk,
        wanted=OAuthSettings(Way.CLIENT, client_id="robot", secret="robots-secret"),
        actor=admin,
    )
    assert "robot" in result(ended(task))
    # In this order: the worker may list at any moment, and would be given another token in between.
    guarded.robots_secret = "another"
    guarded.expire("robot")
    task = call(hall.tool(server, "whoami"))
    asked(task)
    guarded.robots_secret = "robots-secret"
    as_it_is = OAuthSettings(Way.CLIENT, client_id="robot")
    writes.set_oauth(tenant_id=server.tenant_id, server_id=server.pk, wanted=as_it_is, actor=admin)
    assert "robot" in result(ended(task))


def test_a_token_that_the_server_repeats_is_hidden(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    task = ended(call(hall.tool(server, "echo_token")))
    assert task.is_error
    told = Event.objects.values_list("before", "after", "reason")
    for token in guarded.issued:
        assert token not in f"{task.error_json} {task.message} {list(told)}"


def test_a_read_that_needs_an_authorization_says_so(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.EACH, admin)
    authorize(server, guarded, "lists", admin)
    engine = hall.start()
    listed(server)
    claim = RelayClaim(1, server.pk, server.name, "resources/read", {"uri": "x:y"}, {}, 5.0, hall.context.pk)
    reading = asyncio.run_coroutine_threadsafe(engine.relays._outcome(claim), hall._loop)
    outcome = reading.result(10)
    assert isinstance(outcome, Failed)
    assert "needs to be authorized" in outcome.message


def test_a_server_without_oauth_makes_no_statement_more(hall: Hall) -> None:
    server = hall.server()
    engine = hall.start()
    asked: list[object] = []
    engine.servers.grants.access = lambda *given: asked.append(given)  # type: ignore[assignment, method-assign]
    assert ended(call(hall.tool(server, "echo"), text="hello")).state is State.FINISHED
    assert asked == []
