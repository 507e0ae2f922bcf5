"""Tools that are new, changed or gone until a person confirms that; of some servers they wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from taskhub.control import servers
from taskhub.control.caller import Caller, of_shell
from taskhub.core.errors import NotFound, Refused
from taskhub.core.records import ToolRecord
from taskhub.domain.catalogue.confirmations import shown_as
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.catalogue.reads import server_detail, server_tools, waiting_tools
from taskhub.domain.catalogue.sync import store_snapshot
from taskhub.domain.catalogue.view import catalogue, forget_catalogues, tool_by_id
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.tasks.rerun import rerun_task
from taskhub.store.models import Event, Question, Server, Task, Tool
from tests.domain import kit
from tests.domain.catalogue.test_versions import definition, lists
from tests.factories import WORKER, claim_task, make_context, make_server, make_task, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def server() -> Server:
    return make_server(make_tenant(), "files")


@pytest.fixture
def reviewed(server: Server) -> Server:
    """A server whose new and changed tools wait, and which has the tool `look`."""
    lists(server, definition("one"))
    servers.edit_server(by(server), server.pk, ServerEdit(review=True))
    return server


def by(server: Server) -> Caller:
    return Caller(server.tenant_id, of_shell().actor)


def news(server: Server) -> dict[str, str]:
    return {row.name: row.news for row in server_tools(server.tenant_id, server.pk) if row.news}


def offered(server: Server) -> list[str]:
    """What clients are listed, and may call."""
    forget_catalogues()
    return [tool.name for tool in catalogue(server.tenant_id).tools]


def seen(server: Server, *names: str) -> dict[int, str]:
    """What the page shows of these tools now, or of all that are new, changed or gone."""
    rows = server_tools(server.tenant_id, server.pk)
    return {
        row.id: shown_as(row.digest, gone=row.gone_at is not None)
        for row in rows
        if (row.name in names if names else row.news)
    }


def confirm(server: Server, shown: dict[int, str]) -> int:
    return servers.confirm_tools(by(server), server.pk, shown)


def approve(task_id: int) -> None:
    decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id))


def record(server: Server, name: str = "look") -> ToolRecord:
    tool = tool_by_id(Tool.objects.get(server=server, name=name).pk)
    assert tool is not None
    return tool


def test_what_is_new_changed_or_gone_is_so_until_somebody_confirms_it(server: Server) -> None:
    lists(server, definition("one"), definition("b", "other"))
    assert news(server) == {}, "what is there at the first listing is no news"
    lists(server, definition("two"), definition("c", "third"))
    assert news(server) == {"look": "changed", "third": "new", "other": "gone"}
    assert offered(server) == ["look", "third"], "nothing waits unless the server says so"
    assert confirm(server, seen(server)) == 3
    assert news(server) == {}
    first = Event.objects.filter(action="tool.confirmed").order_by("id").first()
    assert first is not None
    look = Tool.objects.get(name="look")
    assert (first.target, first.actor) == ("files/look", of_shell().actor.name)
    assert first.after == {"digest": look.digest, "as": "changed"}
    assert look.confirmed_by == of_shell().actor.name


def test_a_definition_that_comes_back_to_the_confirmed_one_is_no_news(reviewed: Server) -> None:
    lists(reviewed, definition("two"))
    assert (news(reviewed), offered(reviewed)) == ({"look": "changed"}, [])
    lists(reviewed, definition("one"))
    assert (news(reviewed), offered(reviewed)) == ({}, ["look"])
    lists(reviewed)
    assert news(reviewed) == {"look": "gone"}
    lists(reviewed, definition("one"))
    assert (news(reviewed), offered(reviewed)) == ({}, ["look"])


def test_new_and_changed_tools_wait_and_what_was_there_does_not(reviewed: Server) -> None:
    assert offered(reviewed) == ["look"], "switching it on leaves what is offered"
    lists(reviewed, definition("one"), definition("b", "other"))
    assert offered(reviewed) == ["look"]
    lists(reviewed, definition("two"), definition("b", "other"))
    assert offered(reviewed) == []
    row = server_detail(reviewed.tenant_id, reviewed.pk)
    assert row is not None
    assert (row.tools, row.waiting) == (0, 2)
    assert waiting_tools(reviewed.tenant_id) == ((reviewed.pk, "files", 2),)
    confirm(reviewed, seen(reviewed, "other"))
    assert offered(reviewed) == ["other"]
    confirm(reviewed, seen(reviewed))
    assert offered(reviewed) == ["look", "other"]
    assert waiting_tools(reviewed.tenant_id) == ()


def test_at_the_first_listing_of_such_a_server_everything_waits(server: Server) -> None:
    servers.edit_server(by(server), server.pk, ServerEdit(review=True))
    assert Event.objects.get(action="server.review.changed").after == {"review": True, "confirmed": 0}
    lists(server, definition("one"), definition("b", "other"))
    assert (news(server), offered(server)) == ({"look": "new", "other": "new"}, [])
    pk = servers.add_server(by(server), name="paid", spec="https://example.com/mcp", review=True)
    store_snapshot(pk, protocol="", info={}, tools=[])
    assert Event.objects.get(action="server.added").after["review"] is True


def test_switching_it_on_confirms_what_is_offered_and_switching_it_off_offers_all(server: Server) -> None:
    lists(server, definition("one"))
    lists(server, definition("two"))
    servers.edit_server(by(server), server.pk, ServerEdit(review=True))
    assert (news(server), offered(server)) == ({}, ["look"])
    assert Event.objects.get(action="server.review.changed").after == {"review": True, "confirmed": 1}
    servers.edit_server(by(server), server.pk, ServerEdit(review=True))
    assert Event.objects.filter(action="server.review.changed").count() == 1, "it was on"
    lists(server, definition("three"))
    servers.edit_server(by(server), server.pk, ServerEdit(review=False))
    assert (news(server), offered(server)) == ({"look": "changed"}, ["look"])


def test_what_was_changed_since_it_was_shown_is_not_confirmed_nor_anything_with_it(reviewed: Server) -> None:
    lists(reviewed, definition("two"), definition("b", "other"))
    shown = seen(reviewed)
    lists(reviewed, definition("three"), definition("b", "other"))
    with pytest.raises(Refused, match="has changed look again meanwhile"):
        confirm(reviewed, shown)
    assert offered(reviewed) == []
    lists(reviewed, definition("two"))
    with pytest.raises(Refused, match="other"):
        confirm(reviewed, shown)
    assert not Event.objects.filter(action="tool.confirmed").exists()


def test_only_tools_of_the_server_are_confirmed(reviewed: Server) -> None:
    elsewhere = make_server(make_tenant(), "files")
    lists(elsewhere, definition("one"))
    with pytest.raises(NotFound):
        confirm(reviewed, seen(elsewhere, "look"))
    with pytest.raises(NotFound):
        servers.confirm_tools(by(elsewhere), reviewed.pk, seen(reviewed, "look"))


def test_a_call_of_the_old_definition_is_held_until_somebody_approves_it(reviewed: Server) -> None:
    context = make_context(reviewed.tenant)
    task = make_task(context, record(reviewed))
    lists(reviewed, definition("two"))
    assert kit.claim() == []
    held = Task.objects.get(pk=task.id)
    assert (held.state, held.message) == (
        "input_required",
        "Waiting for approval, 0 of 1: the tool has changed since it was called",
    )
    question = Question.objects.get(task_id=task.id)
    assert question.definition == definition("two"), "who approves sees the definition that would run"
    lists(reviewed, definition("three"))
    approve(task.id)
    assert kit.claim() == [], "it has changed again"
    approve(task.id)
    assert [taken.task_id for taken in kit.claim()] == [task.id], "an approval is for this call, and it alone"
    assert offered(reviewed) == []


def test_a_call_that_came_in_while_the_tool_waited_is_held_too(reviewed: Server) -> None:
    lists(reviewed, definition("two"))
    task = make_task(make_context(reviewed.tenant), record(reviewed))  # as by a process that has not heard yet
    assert kit.claim() == []
    assert Task.objects.get(pk=task.id).state == "input_required"


def test_once_it_is_confirmed_a_queued_call_runs_and_without_a_review_nothing_is_held(reviewed: Server) -> None:
    context = make_context(reviewed.tenant)
    task = make_task(context, record(reviewed))
    lists(reviewed, definition("two"))
    confirm(reviewed, seen(reviewed))
    assert [taken.task_id for taken in kit.claim()] == [task.id]
    servers.edit_server(by(reviewed), reviewed.pk, ServerEdit(review=False))
    other = make_task(context, record(reviewed))
    lists(reviewed, definition("three"))
    assert [taken.task_id for taken in kit.claim()] == [other.id]


def test_a_call_of_a_tool_that_waits_is_not_made_again(reviewed: Server) -> None:
    task = make_task(make_context(reviewed.tenant), record(reviewed))
    kit.finish(claim_task(task))
    lists(reviewed, definition("two"))
    with pytest.raises(Refused, match="waits for a person"):
        rerun_task(reviewed.tenant_id, task.public_id, WORKER)


@pytest.fixture
def crew() -> Iterator[kit.Crew]:
    made = kit.Crew(2)
    yield made
    made.close()


@pytest.mark.django_db(transaction=True)
def test_two_who_confirm_the_same_at_once_are_on_record_once(crew: kit.Crew) -> None:
    server = make_server(make_tenant(), "files")
    lists(server, definition("one"))
    servers.edit_server(by(server), server.pk, ServerEdit(review=True))
    for number in range(10):
        lists(server, definition(str(number)), definition(str(number), "other"))
        shown = seen(server)
        backwards = dict(reversed(shown.items()))
        outcomes: list[Any] = crew.race(lambda: confirm(server, shown), lambda: confirm(server, backwards))  # noqa: B023 - runs at once
        assert sorted(outcomes) == [0, 2]
        assert offered(server) == ["look", "other"]
    assert Event.objects.filter(action="tool.confirmed").count() == 20


@pytest.mark.django_db(transaction=True)
def test_a_listing_during_a_confirmation_is_before_it_or_after_it(crew: kit.Crew) -> None:
    server = make_server(make_tenant(), "files")
    lists(server, definition("start"))
    servers.edit_server(by(server), server.pk, ServerEdit(review=True))
    lists(server, definition("0"))
    for number in range(1, 15):
        shown = seen(server)
        outcome, _ = crew.race(lambda: confirm(server, shown), lambda: lists(server, definition(str(number))))  # noqa: B023 - runs at once
        assert isinstance(outcome, Refused) or outcome == 1
        assert offered(server) == [], "whoever came first: the last definition was confirmed by nobody"
        assert (Tool.objects.get().confirmed_digest in shown.values()) == (outcome == 1)
