"""A client that was asked to open the page of a question: what the task's page says of its answer."""

from __future__ import annotations

import pytest
from django.test import Client

from taskhub.console.actions import ACTIONS
from taskhub.console.templatetags.console import icon
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.sessions.writes import answer_page
from taskhub.store.models import Tenant
from tests.console.admin import words
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_context, make_server, make_tool

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("verdict", "reason", "says"),
    [
        ("accept", "", "Opened the page for its user by agent-a as a client"),
        ("decline", "", "Declined to open the page for its user by agent-a as a client"),
        ("cancel", "", "Dismissed the request to open the page by agent-a as a client"),
        ("refused", "No browser", "Could not open the page for its user by agent-a as a client No browser"),
    ],
)
def test_the_history_says_what_the_client_answered(
    admin: Client, tenant: Tenant, verdict: str, reason: str, says: str
) -> None:
    world = World(make_context(tenant, "agent-a"), make_tool(make_server(tenant), asks={}))
    task = kit.create(world)
    question = kit.opened(task.id)
    assert question.id is not None
    actor = Actor(name="agent-a", door=Door.CLIENT, context_id=world.context.pk, reason=reason)
    assert says not in words(admin.get(f"/tasks/{task.public_id}/?view=timeline").content.decode())
    answer_page(task.id, question.id, verdict, actor=actor)
    assert says in words(admin.get(f"/tasks/{task.public_id}/?view=timeline").content.decode())
    assert "<svg" in icon(ACTIONS[f"question.page.{verdict}"][0])
