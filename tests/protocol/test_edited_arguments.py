"""Calls that people approve with edited arguments, as clients of each revision meet them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import rules_in_force
from tests.support.sep_1686_client import Historical
from tests.support.sep_2557_client import Historical as Proposed
from tests.support.session import SessionClient

pytestmark = pytest.mark.processes

RULE: dict[str, Any] = {
    "name": "Zed is asked about",
    "when": "tool.name == 'slow_compute' && args.label == 'Zed'",
    "then": "ask",
    "editable": ["label"],
}
SHOWN: dict[str, Any] = {
    "name": "A quarter is asked about",
    "when": "tool.name == 'lengthy' && args.seconds == 0.25",
    "then": "ask",
    "editable": ["seconds"],
    "preview": {"tool": "rich"},
}
TOLD = 'An approver (approver) changed arguments of this call before approving it: label = "Amy".'
QUICK = {"seconds": 0}
NOTE = {"by": "approver", "arguments": {"label": "Amy"}, "removed": []}


@pytest.fixture(scope="module")
def approver(hub: RunningHub) -> Iterator[Person]:
    with rules_in_force(hub, RULE, SHOWN), Person(hub, "approver") as person:
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


# --- each wire: the call waits, people see its preview and edit it, and its agent is told


class Caller:
    """A client of its own on one wire, whose call of `lengthy` waits."""

    def __init__(self, hub: RunningHub, wire: str, stack: ExitStack) -> None:
        self.hub, (self.version, _, self.kind) = hub, wire.partition(" ")
        client = f"wire-{secrets.token_hex(4)}"
        token = hub.token(client)
        self.modern = stack.enter_context(Client(hub.base, token))
        if self.version == "SEP-2557":
            self.proposed = stack.enter_context(Proposed(hub.base, token))
        elif self.version != "2026-07-28":
            version = "2025-11-25" if self.version == "SEP-1686" else self.version
            self.session = stack.enter_context(SessionClient(hub.base, token, version=version))
        self.pool = stack.enter_context(ThreadPoolExecutor(1))
        self.calling = self.pool.submit(self._call, {"seconds": 0.25})

        def made() -> str:
            found = hub.sql(
                "SELECT t.public_id FROM task t JOIN auth_context c ON c.id = t.context_id WHERE c.name = %s", [client]
            )
            return str(found[0][0]) if found else ""

        self.task = wait_until(made, "the task")

    def _call(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The result of the call, if it comes with it."""
        if self.version == "SEP-2557":
            self.proposed.create("lengthy", arguments)
        elif self.version == "SEP-1686":
            with Historical(self.session).call("mine", "lengthy", arguments) as events:
                result: dict[str, Any] = events.until("response")["result"]
                return result
        elif self.version == "2026-07-28":
            if self.kind:
                self.modern.create("lengthy", arguments, caps=TASKS)
            else:
                return self.modern.tool("lengthy", arguments).result
        elif self.kind:
            self.session.create("lengthy", arguments)
        else:
            return self.session.tool("lengthy", arguments).result
        return None

    def message(self) -> str:
        """What its agent reads of the call while it waits: of a plain call, from another connection."""
        if self.version == "SEP-2557":
            found = self.proposed.get(self.task).result
        elif self.version == "2026-07-28" and self.kind:
            found = self.modern.get(self.task).result
        elif self.kind:
            found = self.session.get(self.task).result
        elif self.version == "SEP-1686":
            return ""  # has none
        else:
            said = self.modern.tool("taskhub_get_task", {"task_id": self.task}).result["content"][0]["text"]
            return str(json.loads(said)["says"])
        return str(found["statusMessage"])

    def result(self) -> dict[str, Any]:
        """The result, once it is there."""
        came = self.calling.result(20)
        if came is None and self.version == "SEP-2557":
            came = self.proposed.until(self.task, "completed")["result"]
        elif came is None and self.version == "2026-07-28":
            came = self.modern.until(self.task, "completed")["result"]
        elif came is None:
            self.session.until(self.task, "completed")
            came = self.session.call("tasks/result", {"taskId": self.task}).result
        assert came is not None
        return came


WIRES = (
    "2026-07-28 tasks",
    "2026-07-28",
    "2025-11-25 tasks",
    "2025-11-25",
    "2025-06-18",
    "2025-03-26",
    "SEP-1686",
    "SEP-2557",
)


@contextmanager
def paused(hub: RunningHub, tool: str) -> Iterator[None]:
    """The server of the tool takes no calls."""
    ((server,),) = hub.sql("SELECT server_id FROM tool WHERE exposed_name = %s", [tool])
    hub.sql("UPDATE server SET enabled = false WHERE id = %s", [server])
    try:
        yield
    finally:
        hub.sql("UPDATE server SET enabled = true WHERE id = %s", [server])
        hub.sql("SELECT pg_notify('taskhub', 'c')")


def preview_of(hub: RunningHub, question: int) -> str:
    """What the preview of a question shows."""

    def look() -> str | None:
        found = hub.sql("SELECT text FROM preview WHERE question_id = %s AND ended_at IS NOT NULL", [question])
        return str(found[0][0]) if found else None

    return wait_until(look, "the preview")


def test_on_every_wire_people_see_a_preview_and_the_agent_is_told_what_they_changed(
    hub: RunningHub, approver: Person
) -> None:
    note = {"by": "approver", "arguments": {"seconds": 0}, "removed": []}
    told = "An approver (approver) changed arguments of this call before approving it: seconds = 0."
    for wire in WIRES:
        with ExitStack() as stack:
            caller = Caller(hub, wire, stack)
            first = question_of(hub, caller.task)
            assert "A link" in preview_of(hub, first), wire
            approver.edit(first, f0="0")
            second = question_of(hub, caller.task)
            assert "A link" in preview_of(hub, second), wire
            assert "A link" in approver.read(f"/inbox/{second}/"), wire
            assert not caller.calling.done() or caller.calling.result() is None, wire
            with paused(hub, "lengthy"):
                approver.decide(second)
                message = caller.message()
                assert message.startswith("An approver changed seconds") or wire == "SEP-1686", (wire, message)
            result = caller.result()
            assert [block["text"] for block in result["content"]] == ["Took a while", told], wire
            assert result["_meta"]["taskhub/edited"] == note, wire
            ran = hub.sql("SELECT arguments, edited->'arguments' FROM task WHERE public_id = %s", [caller.task])
            assert ran == [({"seconds": 0.25}, {"seconds": 0})], wire
