"""Calls that people approve with edited arguments, as clients of each revision meet them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub
from tests.support.person import Person
from tests.support.policies import rules_in_force
from tests.support.session import SessionClient

pytestmark = pytest.mark.processes

RULE: dict[str, Any] = {
    "name": "Zed is asked about",
    "when": "tool.name == 'slow_compute' && args.label == 'Zed'",
    "then": "ask",
    "editable": ["label"],
}
TOLD = 'An approver (approver) changed arguments of this call before approving it: label = "Amy".'
QUICK = {"seconds": 0}
NOTE = {"by": "approver", "arguments": {"label": "Amy"}, "removed": []}


@pytest.fixture(scope="module")
def approver(hub: RunningHub) -> Iterator[Person]:
    with rules_in_force(hub, RULE), Person(hub, "approver") as person:
        yield person


def question_of(hub: RunningHub, task_id: str) -> int:
    ((found,),) = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s AND q.state = 'open'",
        [task_id],
    )
    return int(found)


def as_edited(result: dict[str, Any], plain: dict[str, Any]) -> None:
    """The result is that of the call with the other name, and says so."""
    assert result["content"][:-1] == plain["content"]
    assert result["content"][-1] == {"type": "text", "text": TOLD}
    assert result["_meta"]["taskhub/edited"] == NOTE
    assert result.get("structuredContent") == plain.get("structuredContent")


def test_a_task_runs_as_approved_and_says_so(hub: RunningHub, alice: Client, approver: Person) -> None:
    plain = alice.tool("slow_compute", {**QUICK, "label": "Amy"}).result
    made = alice.create("slow_compute", {**QUICK, "label": "Zed"}, caps=TASKS)
    approver.edit(question_of(hub, made), f0="Amy")
    ended = alice.until(made, "completed")
    as_edited(ended["result"], plain)
    assert hub.sql("SELECT arguments FROM task WHERE public_id = %s", [made]) == [({**QUICK, "label": "Zed"},)]


def test_a_task_of_2025_too(hub: RunningHub, approver: Person) -> None:
    with SessionClient(hub.base, hub.tokens["agent-a"], version="2025-11-25") as session:
        first = session.create("slow_compute", {**QUICK, "label": "Amy"})
        session.until(first, "completed")
        plain = session.call("tasks/result", {"taskId": first}).result
        made = session.create("slow_compute", {**QUICK, "label": "Zed"})
        approver.edit(question_of(hub, made), f0="Amy")
        session.until(made, "completed")
        result = session.call("tasks/result", {"taskId": made}).result
        as_edited(result, plain)
        assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": made}


def test_while_it_runs_the_message_says_so(hub: RunningHub, alice: Client, approver: Person) -> None:
    """With its server away it waits, and the message says both."""
    server = "SELECT s.id FROM server s JOIN tool o ON o.server_id = s.id WHERE o.exposed_name = 'slow_compute'"
    ((server_id,),) = hub.sql(server)
    made = alice.create("slow_compute", {**QUICK, "label": "Zed"}, caps=TASKS)
    hub.sql("UPDATE server SET enabled = false WHERE id = %s", [server_id])
    try:
        approver.edit(question_of(hub, made), f0="Amy")
        message = alice.get(made).result["statusMessage"]
        assert message.startswith("An approver changed label. Paused: server ")
    finally:
        hub.sql("UPDATE server SET enabled = true WHERE id = %s", [server_id])
        hub.sql("SELECT pg_notify('taskhub', 'c')")
    alice.until(made, "completed")
    (shown,) = hub.sql("SELECT after FROM event WHERE action = 'question.edited' ORDER BY id DESC LIMIT 1")[0]
    assert json.loads(json.dumps(shown))["edited"] == ["label"]
