"""Claude Code since 2.1.319, as its changelog and articles of November 2026 tell (anthropics/claude-code CHANGELOG.md;
the smoke test of co.multiply/remontoire 0.8.0 saw it on the wire):

- `server/discover` first, and no `initialize`; every request declares tasks, roots and elicitation;
- `_meta["claudecode/toolUseId"]` with each call;
- a call that runs as a task goes to the background at once; `pollIntervalMs` is honoured;
- its model sees nothing of `statusMessage`, and the whole final result.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import EXTENSION, Client
from tests.support.hub import RunningHub
from tests.support.person import Person

CAPABILITIES: dict[str, Any] = {
    "extensions": {EXTENSION: {}},
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
}


class ClaudeCode:
    """One conversation with it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.background: list[str] = []
        """Tasks that it was told of and follows."""
        self.uses: list[str] = []
        """Ids of its calls, as its transcripts have them."""
        discovered = client.call("server/discover", caps=CAPABILITIES).result
        assert "2026-07-28" in discovered["supportedVersions"]
        assert EXTENSION in discovered["capabilities"]["extensions"]
        self.tools = [tool["name"] for tool in client.call("tools/list", caps=CAPABILITIES).result["tools"]]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What its model is shown in the end; the task is followed meanwhile."""
        self.uses.append(f"toolu_{secrets.token_hex(12)}")
        meta = {"claudecode/toolUseId": self.uses[-1]}
        found = self._client.tool(tool, arguments, caps=CAPABILITIES, meta=meta).result
        if found["resultType"] != "task":
            return self._shown(found)
        self.background.append(found["taskId"])
        # It waits as long as it is asked to between two polls; nobody cancels the wait.
        pause = threading.Event()
        while found["status"] in ("working", "input_required"):
            pause.wait(found["pollIntervalMs"] / 1_000)
            found = self._client.get(found["taskId"], caps=CAPABILITIES).result
            if found["status"] == "input_required":
                answers = {key: {"action": "accept", "content": {"confirm": True}} for key in found["inputRequests"]}
                self._client.update(found["taskId"], answers, caps=CAPABILITIES)
        if found["status"] == "completed":
            return self._shown(found["result"])
        return {"error": found.get("error", {}).get("message", found["status"])}

    @staticmethod
    def _shown(result: dict[str, Any]) -> dict[str, Any]:
        """A success's structured half alone if it has one; of an error the text alone (#79944, #86032)."""
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        if result.get("isError"):
            return {"error": text}
        return result.get("structuredContent") or {"text": text}


@pytest.fixture
def claude(hub: RunningHub) -> Iterator[ClaudeCode]:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        yield ClaudeCode(client)


def test_it_is_listed_no_tool_of_the_hub(claude: ClaudeCode) -> None:
    assert "slow_compute" in claude.tools
    assert [name for name in claude.tools if name.startswith("taskhub_")] == []


def test_a_long_call_goes_to_the_background_and_its_result_arrives(claude: ClaudeCode) -> None:
    assert claude.call("slow_compute", seconds=1.5, label="x") == {"text": "Computed x in 1.5 s"}
    assert len(claude.background) == 1


def test_a_quick_call_is_answered_at_once(claude: ClaudeCode) -> None:
    assert claude.call("greet", name="Ada") == {"text": "Hello, Ada!"}
    assert claude.background == []


def test_a_question_is_answered_and_the_call_goes_on(claude: ClaudeCode) -> None:
    assert claude.call("confirm_delete", filename="x") == {"text": "Deleted x"}


def test_the_text_of_an_error_reaches_the_model(claude: ClaudeCode) -> None:
    assert claude.call("failing_job") == {"error": "This job failed on purpose"}
    assert claude.call("protocol_error_job")["error"].startswith("This job met a protocol error")


def test_people_find_a_call_by_the_id_of_its_transcript(hub: RunningHub, claude: ClaudeCode) -> None:
    claude.call("greet", name="Grace")
    (task,) = hub.sql("SELECT public_id FROM task ORDER BY id DESC LIMIT 1")[0]
    with Person(hub, "viewer") as viewer:
        assert f"/tasks/{task}/" in viewer.read(f"/tasks/?q={claude.uses[-1]}")
        assert claude.uses[-1] in viewer.read(f"/tasks/{task}/")
        assert f"/tasks/{task}/" not in viewer.read("/tasks/?q=toolu_of_nobody")


def test_two_equal_calls_are_two_tasks(claude: ClaudeCode, tmp_path: Path) -> None:
    """Joining is for plain calls: what declares tasks keeps its handles."""
    for _ in range(2):
        claude.call("slow_compute", seconds=0.8, label="twice")
    assert len(set(claude.background)) == 2
