"""A caller of a plain call that has left: what the task's page, the lists and the inbox say of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from taskhub.core.records import Actor, TaskRecord
from taskhub.core.states import Door
from taskhub.domain.tasks import callers
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import create_task
from taskhub.store.models import AuthContext, Question, Tenant
from tests.console.admin import words
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_context, make_question, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def context(tenant: Tenant) -> AuthContext:
    return make_context(tenant, "agent-a")


def by(context: AuthContext) -> Actor:
    return Actor(name=context.name, door=Door.CLIENT, context_id=context.pk, reason="The caller left")


def leave(task: TaskRecord, context: AuthContext) -> None:
    assert callers.leave(task.id, "w", actor=by(context)) is not None


def plain(context: AuthContext, state: str = "queued", **fields: Any) -> TaskRecord:
    return make_task(context, state=state, waiter="w", join_seconds=300, **fields)


def page(admin: Client, address: str) -> str:
    return words(admin.get(address).content.decode())


@pytest.mark.parametrize(
    ("state", "says", "chip"),
    [
        ("queued", "The caller has left, just now . The call goes on and can be joined.", "Caller has left"),
        ("working", "The caller has left, just now . The call goes on and can be joined.", "Caller has left"),
        ("finished", "The caller has left, just now . Its result was not fetched.", "Not fetched"),
        ("finished-error", "The caller has left, just now . Its result was not fetched.", "Not fetched"),
        ("faulted", "The caller has left, just now . Its error was not fetched.", "Not fetched"),
        ("cancelled", "The caller has left, just now .", ""),
    ],
)
def test_page_and_row_say_that_the_caller_has_left(
    admin: Client, context: AuthContext, state: str, says: str, chip: str
) -> None:
    task = plain(context, state)
    for address in ("/tasks/", f"/tasks/{task.public_id}/"):
        shown = page(admin, address)
        assert "has left" not in shown
        assert "ot fetched" not in shown
    leave(task, context)
    shown = page(admin, f"/tasks/{task.public_id}/")
    assert says in shown
    assert ("goes on" in shown, "not fetched" in shown) == ("goes on" in says, "not fetched" in says)
    row = page(admin, "/tasks/")
    assert [words for words in ("Caller has left", "Not fetched") if words in row] == [chip][: len(chip)]
    callers.fetched(task.id)
    assert "has left" not in page(admin, f"/tasks/{task.public_id}/")
    assert "ot fetched" not in page(admin, "/tasks/")


def test_a_call_that_is_to_be_cancelled_or_cannot_be_joined_says_no_more_than_is_true(
    admin: Client, context: AuthContext
) -> None:
    alone = make_task(context, waiter="w")
    leave(alone, context)
    assert "just now . The call goes on." in page(admin, f"/tasks/{alone.public_id}/")
    stopping = plain(context, "working")
    leave(stopping, context)
    request_cancel(stopping.id, actor=by(context))
    shown = page(admin, f"/tasks/{stopping.public_id}/")
    assert "The caller has left, just now ." in shown
    assert "The call goes on" not in shown


def test_an_approver_knows_that_nobody_waits_at_the_other_end(
    admin: Client, context: AuthContext, tenant: Tenant
) -> None:
    task = plain(context, tool=make_tool(make_server(tenant), "deploy", asks={}))
    question = f"/inbox/{Question.objects.get(task_id=task.id).pk}/"
    for address in ("/", "/inbox/", question):
        assert "· caller has left" not in page(admin, address)
        assert "Caller has left" not in page(admin, address)
    leave(task, context)
    assert "Caller has left" in page(admin, "/inbox/")
    assert "· caller has left" in page(admin, "/")
    assert "The call goes on after the approval, and can be joined." in page(admin, question)
    asked = plain(context, "input_required", question=make_question(), arguments={"n": 2})
    leave(asked, context)
    question = f"/inbox/{Question.objects.get(task_id=asked.id).pk}/"
    assert "The call goes on after the answer, and can be joined." in page(admin, question)
    callers.wait(asked.id, "w")
    assert "nobody waits" not in page(admin, question)


def test_the_timeline_tells_of_leaving_and_of_coming_back(admin: Client, context: AuthContext, tenant: Tenant) -> None:
    world = World(context, make_tool(make_server(tenant)))
    call = kit.new_task(world, join_seconds=300, waiter="w")
    task = create_task(call, world.actor).task
    leave(task, context)
    assert create_task(call, world.actor).existed
    shown = page(admin, f"/tasks/{task.public_id}/?view=timeline")
    assert "Called again, and joined by agent-a as a client" in shown
    assert "Left without the result by agent-a as a client" in shown
    assert "The caller left" not in shown
