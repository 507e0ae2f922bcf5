"""What becomes of a server that is removed: of its names, its secrets, its calls, and of what is on record."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.control import servers
from taskhub.control.caller import Caller, of_shell
from taskhub.core.errors import NotFound, Refused
from taskhub.core.records import UpstreamTask
from taskhub.core.states import Door
from taskhub.domain.catalogue import breakers
from taskhub.domain.catalogue.reads import server_detail, server_list, server_tools
from taskhub.domain.catalogue.spec import parse_spec
from taskhub.domain.catalogue.sync import connect_server, enabled_servers, store_problem, store_snapshot
from taskhub.domain.tasks import removed, run
from taskhub.domain.tasks.deferred import defer
from taskhub.domain.tasks.detail import task_detail
from taskhub.domain.tasks.rerun import rerun_task
from taskhub.store.models import Event, Interest, Offer, Server, Tool
from tests.domain import kit
from tests.domain.catalogue.test_names import lists, prompts, tools
from tests.factories import (
    WORKER,
    claim_task,
    make_context,
    make_question,
    make_server,
    make_task,
    make_tenant,
    make_tool,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def server() -> Server:
    return make_server(make_tenant(), "files")


def by(server: Server) -> Caller:
    return Caller(server.tenant_id, of_shell().actor)


def remove(server: Server) -> removed.LiveCalls:
    return servers.remove_server(by(server), server.pk, confirmed=True)


def test_names_are_free_for_others(server: Server) -> None:
    lists(server, "look", prompts=("p",))
    remove(server)
    assert (tools(server.tenant), prompts(server.tenant)) == ({}, {})
    lists(other := make_server(server.tenant, "other"), "look", prompts=("p",))
    lists(make_server(server.tenant, "files"), "look")
    assert tools(server.tenant) == {"look": "other/look", "files__look": "files/look"}
    assert prompts(server.tenant) == {"p": "other/p"}
    assert [row.id for row in server_list(server.tenant_id)] != [server.pk]
    assert other.pk in {row.id for row in server_list(server.tenant_id)}


def test_secrets_are_erased_and_the_removal_is_on_record(server: Server) -> None:
    caller = by(server)
    pk = servers.add_server(caller, name="paid", spec="https://u:pa55word@example.com/mcp", token="t0ken")
    servers.remove_server(caller, pk)
    row = Server.objects.get(pk=pk)
    assert (row.sealed_target, row.credentials, row.enabled) == (None, None, False)
    event = Event.objects.get(action="server.removed")
    assert (event.target, event.actor, event.door) == ("paid", caller.actor.name, Door.CLI)
    assert event.before == {"transport": "http", "target": row.target, "prefix": "", "token": True}
    assert "pa55word" not in row.target + str(event.before)
    assert pk not in {found.id for found in enabled_servers()}


def test_calls_that_wait_end_with_the_reason_and_calls_that_run_go_on(server: Server) -> None:
    context, tool = make_context(server.tenant), make_tool(server)
    elsewhere = make_task(context)
    queued = make_task(context, tool)
    asking = make_task(context, tool, state="input_required", question=make_question())
    held = claim_task(running := make_task(context, tool))
    with pytest.raises(Refused, match="2 wait and 1 run"):
        servers.remove_server(by(server), server.pk)
    assert Server.objects.get(pk=server.pk).removed_at is None
    assert remove(server) == removed.LiveCalls(waiting=2, running=1)
    for task, message in ((queued, "Not run: its server has been removed"), (asking, "Not continued: its server")):
        found = kit.look(task.id)
        assert (found.state, found.message.startswith(message)) == ("faulted", True)
        assert '"server_removed"' in kit.column(task.id, "error")
    assert kit.look(elsewhere.id).state == "queued"
    assert run.finish(held, kit.FINAL, actor=WORKER)
    assert kit.look(running.id).state == "finished"
    detail = task_detail(server.tenant_id, running.public_id)
    assert detail is not None
    assert (detail.server, detail.server_removed) == ("files", True)
    with pytest.raises(Refused, match="not offered"):
        rerun_task(server.tenant_id, running.public_id, WORKER)


def test_calls_that_the_server_runs_as_its_own_tasks_are_counted_apart(server: Server) -> None:
    context, tool = make_context(server.tenant), make_tool(server)
    held = claim_task(task := make_task(context, tool))
    theirs = UpstreamTask("t-1", "2026-07-28", "working", "", None)
    assert defer(held, theirs, poll_ms=100, ran_seconds=0, home="", delay_ms=100, actor=WORKER)
    with pytest.raises(Refused, match="0 wait and 0 run, and 1 run as its own tasks"):
        servers.remove_server(by(server), server.pk)
    assert remove(server) == removed.LiveCalls(waiting=0, running=0, deferred=1)
    assert kit.look(task.id).message == "Not continued: its server has been removed"


def test_a_call_that_comes_back_to_the_queue_is_ended_by_the_claim(server: Server) -> None:
    context, tool = make_context(server.tenant), make_tool(server)
    held, asked = claim_task(returned := make_task(context, tool)), claim_task(asking := make_task(context, tool))
    late = make_task(context, tool)
    Server.objects.filter(pk=server.pk).update(enabled=False)
    servers.remove_server(by(server), server.pk, confirmed=True)
    assert run.release(held, delay_seconds=0, started=False, reason="", actor=WORKER)
    run.ask(asked, [make_question()], upstream_state="s", message="", live=False, actor=WORKER)
    assert kit.look(asking.id).message == "Not continued: its server has been removed", "nobody is asked in vain"
    assert kit.look(late.id).message == "Not run: its server has been removed"
    assert kit.look(returned.id).state == "queued"
    assert kit.claim(limit=8) == []
    assert kit.look(returned.id).message == "Not continued: its server has been removed"


def test_a_call_that_was_made_meanwhile_is_ended_by_the_claim(server: Server) -> None:
    tool = make_tool(server)  # as a web process has it cached
    remove(server)
    late = make_task(make_context(server.tenant), tool)
    assert kit.claim(limit=8) == []
    assert kit.look(late.id).message == "Not run: its server has been removed"


def test_what_a_worker_still_has_to_say_changes_nothing(server: Server) -> None:
    lists(server, "look")
    Offer.objects.create(server=server, kind="resource", key="a:b", exposed_name="a:b", definition={}, digest="")
    remove(server)
    before = list(Server.objects.filter(pk=server.pk).values())
    assert not store_snapshot(server.pk, protocol="", info={}, tools=[])
    store_problem(server.pk, "gone")
    breakers.store_reached(server.pk)
    assert breakers.store_failure(server.pk, "gone", probing=False), "its call should go back, to be ended"
    assert not breakers.take_probe(server.pk)
    assert list(Server.objects.filter(pk=server.pk).values()) == before
    assert not Offer.objects.filter(server=server).exists()
    assert not Interest.objects.filter(server=server).exists()
    assert Tool.objects.get(server=server).gone_at is not None


def test_it_is_not_there_for_people_any_more(server: Server) -> None:
    make_tool(server)
    remove(server)
    assert server_detail(server.tenant_id, server.pk) is None
    assert server_tools(server.tenant_id, server.pk) == ()
    for use in (servers.refresh_server, servers.try_server, servers.remove_server):
        with pytest.raises(NotFound):
            use(by(server), server.pk)
    with pytest.raises(NotFound):
        servers.find_server(by(server), "files")


def test_one_that_is_given_again_at_a_start_is_added_anew(server: Server) -> None:
    given: dict[str, Any] = {"tenant_id": server.tenant_id, "actor": WORKER}
    first = connect_server(name="acme", transport="http", target="https://acme.example/mcp", named=False, **given)
    servers.remove_server(by(server), first)
    again = servers.set_server(by(server), parse_spec("https://acme.example/mcp"))
    assert again != first
    assert Server.objects.get(pk=again).name == "acme"
    assert Event.objects.filter(action="server.added", target="acme").count() == 2
