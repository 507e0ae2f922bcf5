"""VS Code, as its source tells (microsoft/vscode, src/vs/workbench/contrib/mcp/common: mcpServerRequestHandler.ts,
mcpTaskManager.ts; vscode#335229):

- a 2025-11-25 session whose client declares tasks, forms and pages;
- `params.task` only for tools of which `execution.taskSupport` is not `forbidden`, and only if the server declares
  `tasks.requests.tools.call`;
- a task is given up locally when the *first* `ttl` is over, however it is lengthened;
- it polls `tasks/get`; `tasks/result` is asked for `completed` alone; of `failed` its model sees the `statusMessage`;
- the question of a task in `input_required` is wanted on the session's own stream.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.hub import RunningHub
from tests.support.person import Person
from tests.support.policies import approval_wanted
from tests.support.session import SessionClient

CAPABILITIES: dict[str, Any] = {
    "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {"listChanged": True},
}


class VSCode:
    """Its client of one session."""

    def __init__(self, session: SessionClient) -> None:
        self.session = session
        server = session.initialized["capabilities"]
        assert server["tasks"]["requests"]["tools"]["call"] == {}
        self.tools = {tool["name"]: tool for tool in session.call("tools/list").result["tools"]}

    def begin(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The task that a call was made."""
        assert self.tools[tool]["execution"]["taskSupport"] != "forbidden"
        made: dict[str, Any] = self.session.tool(tool, arguments, task={}).result["task"]
        return made

    def call(self, tool: str, **arguments: Any) -> str:
        """What its model is shown."""
        task = self.begin(tool, **arguments)
        return self.follow(task)

    def follow(self, task: dict[str, Any]) -> str:
        """Until the task has ended, or is over by the first `ttl`."""
        over = time.monotonic() + task["ttl"] / 1_000 if task["ttl"] is not None else float("inf")
        pause = threading.Event()
        while task["status"] not in ("completed", "failed", "cancelled"):
            assert time.monotonic() < over, "Task timed out"
            pause.wait(task["pollInterval"] / 1_000)
            task = self.session.get(task["taskId"]).result
        if task["status"] == "failed":
            return f"Task {task['taskId']} failed: {task['statusMessage']}"
        if task["status"] == "cancelled":
            return "cancelled"
        result = self.session.call("tasks/result", {"taskId": task["taskId"]}).result
        return "\n".join(block["text"] for block in result["content"])


@pytest.fixture
def code(hub: RunningHub) -> Iterator[VSCode]:
    with SessionClient(hub.base, hub.tokens["agent-a"], caps=CAPABILITIES) as session:
        yield VSCode(session)


def test_a_call_is_followed_to_its_result(code: VSCode) -> None:
    assert [name for name in code.tools if name.startswith("taskhub_")] == []
    assert code.call("slow_compute", seconds=1, label="x") == "Computed x in 1 s"


def test_the_whole_text_of_a_failure_reaches_its_model(code: VSCode) -> None:
    assert code.call("failing_job").endswith(" failed: This job failed on purpose")
    assert "This job met a protocol error on purpose" in code.call("protocol_error_job")


def test_the_question_of_a_task_comes_on_the_sessions_own_stream(code: VSCode) -> None:
    with code.session.listen() as stream:
        task = code.begin("confirm_delete", filename="x")
        asked = stream.until("elicitation/create")
        assert code.session.get(task["taskId"]).result["status"] == "input_required"
        code.session.respond(asked, {"action": "accept", "content": {"confirm": True}})
        assert code.follow(task) == "Deleted x"


def test_the_first_ttl_leaves_people_a_week(hub: RunningHub, code: VSCode) -> None:
    with approval_wanted(hub, "signed", {}, group="ops"):
        task = code.begin("signed")
        assert task["ttl"] >= 7 * 86_400_000
        # What waits for people is no question of the client's: it would give up a task that it cannot answer.
        assert task["status"] == "working"
        question = hub.sql(
            "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s", [task["taskId"]]
        )[0][0]
        with Person(hub, "approver") as approver:
            approver.decide(question, "approve")
        assert code.follow(task) == "Signed"
