"""The page of a task says who has read its result."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from taskhub.core.states import Role
from taskhub.domain.tasks.reads import Read, store_reads
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def context(tenant: Any) -> Any:
    return make_context(tenant, "agent-a")


@pytest.fixture
def server(tenant: Any) -> Any:
    return make_server(tenant, "demo")


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Any:
    return sign_in(make_person(Role.OPERATOR, tenant))


def facts(page: str) -> str:
    """The text of the facts beside the task."""
    aside = page.partition('aria-label="Facts"')[2].partition("</aside>")[0]
    return " ".join(re.sub(r"<[^>]+>", "", aside).split())


def test_the_detail_says_who_has_read_the_result(operator: Any, context: Any, server: Any) -> None:
    tool = make_tool(server, "echo")
    task = make_task(context, tool, state="finished")
    address = f"/tasks/{task.public_id}/"
    assert "Result read not yet" in facts(operator.get(address).content.decode())
    ago = time.time() - 150
    store_reads({(task.id, context.pk): Read(ago, ago)})
    assert f"Result read by {context.name}, 2 min ago" in facts(operator.get(address).content.decode())
    store_reads({(task.id, context.pk): Read(ago - 600, ago - 300, 2)})
    shown = facts(operator.get(address).content.decode())
    assert f"Result read by {context.name}: 3 times, first 12 min ago, last 2 min ago" in shown
    for state in ("queued", "cancelled"):
        other = make_task(context, tool, state=state)
        assert " read " not in facts(operator.get(f"/tasks/{other.public_id}/").content.decode())
    faulted = make_task(context, tool, state="faulted")
    assert "Error read not yet" in facts(operator.get(f"/tasks/{faulted.public_id}/").content.decode())
