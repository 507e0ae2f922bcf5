"""One task of each revision at the same time: in the same console for people, in its own words for its client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import httpx2
import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.sep_1686_client import Historical as Of1686
from tests.support.sep_2557_client import Historical as Of2557
from tests.support.session import SessionClient
from tests.support.transcript import Transcript

pytestmark = pytest.mark.processes

FORMS: Final[dict[str, Any]] = {"elicitation": {}}

WORDS: Final[dict[str, frozenset[str]]] = {
    "2026-07-28": frozenset(
        {
            "resultType", "resultType=task", "resultType=complete", "ttlMs", "pollIntervalMs", "inputRequests",
            "elicitation/create", "io.modelcontextprotocol/serverInfo",
        }
    ),
    "2025-11-25": frozenset(
        {
            "ttl", "pollInterval", "task", "serverInfo", "io.modelcontextprotocol/related-task",
            "io.modelcontextprotocol/model-immediate-response", "notifications/tasks/status", "elicitation/create",
        }
    ),
    "sep-1686": frozenset(
        {
            "keepAlive", "pollFrequency", "modelcontextprotocol.io/related-task", "notifications/tasks/created",
            "status=submitted", "serverInfo", "elicitation/create", "task",
        }
    ),
    "sep-2557": frozenset(
        {
            "resultType", "resultType=task", "resultType=complete", "ttl", "pollInterval", "task", "requestState",
            "inputRequests", "elicitation/create", "io.modelcontextprotocol/serverInfo",
        }
    ),
}  # fmt: skip
"""The words that tell the revisions apart, and who may use them. In the stateless ones `elicitation/create`
stands inside `inputRequests`; in a session `task` is a member of a result and of what clients host."""
ALL: Final = frozenset.union(*WORDS.values()) | {
    "resultType=incomplete",
    "resultType=input_required",
    "execution",
    "cacheScope",
}


class Heard(Transcript):
    """Everything that came back, whatever the page would show."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def received(self, status: int, kind: str, messages: list[Any], headers: Any) -> None:
        """Keep it."""
        self.messages += messages


def words(value: Any) -> Iterator[str]:
    """Every key, method and status in a message; not what tools say."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key in ("method", "status", "resultType") and isinstance(item, str):
                yield item if key == "method" else f"{key}={item}"
            if key not in ("content", "requestedSchema", "arguments", "clientInfo"):
                yield from words(item)
    elif isinstance(value, list):
        for item in value:
            yield from words(item)


class Console:
    """An operator's browser, without scripts."""

    def __init__(self, hub: RunningHub) -> None:
        signs_in = json.loads((hub.data / "credentials.json").read_text())["users"]["admin"]
        self.http = httpx2.Client(base_url=hub.base, trust_env=False, follow_redirects=True, timeout=20)
        self.send("/accounts/login/", {"login": signs_in["username"], "password": signs_in["password"]})

    def send(self, page: str, fields: dict[str, str], to: str | None = None) -> httpx2.Response:
        """Fill in the form on `page` and send it."""
        found = self.http.get(page)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', found.text)
        assert token is not None, found.text
        base = str(self.http.base_url).rstrip("/")
        response = self.http.post(
            to or page, data={"csrfmiddlewaretoken": token[1], **fields}, headers={"Origin": base, "Referer": base}
        )
        assert response.status_code == 200, response.text
        return response


View = tuple[str, Callable[[], str]]
"""A task's id in the console, and its status as its client sees it."""


def _id_of(hub: RunningHub, filename: str) -> str:
    def look() -> str:
        found = hub.sql(
            "SELECT public_id FROM task WHERE arguments ->> 'filename' = %s AND state = 'input_required'",
            [filename],
        )
        return str(found[0][0]) if found else ""

    return wait_until(look, f"the question about {filename}")


def _question(hub: RunningHub, public_id: str) -> str:
    """The page of the question that the task waits for."""
    found = hub.sql("SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s", [public_id])
    return f"/inbox/{found[0][0]}/"


def _becomes(status: Callable[[], str], wanted: str) -> None:
    wait_until(lambda: status() == wanted, f"a client to see {wanted}")


def _begin(
    hub: RunningHub, stack: ExitStack, heard: dict[str, Heard], what: str
) -> dict[str, tuple[str, Callable[[], str]]]:
    """A waiting task of each revision: its id in the console, and how its client sees it."""
    token = hub.tokens["agent-a"]
    new = stack.enter_context(Client(hub.base, token, heard["2026-07-28"]))
    old = stack.enter_context(SessionClient(hub.base, token, caps=FORMS, transcript=heard["2025-11-25"]))
    older = stack.enter_context(SessionClient(hub.base, token, caps=FORMS, transcript=heard["sep-1686"]))
    draft = stack.enter_context(Of2557(hub.base, token))
    files = {revision: f"{what} {revision}.txt" for revision in WORDS}
    caps = {**TASKS, **FORMS}
    new_id = new.create("confirm_delete", {"filename": files["2026-07-28"]}, caps=caps)
    old_id = old.create("confirm_delete", {"filename": files["2025-11-25"]})
    Of1686(older).start(what, "confirm_delete", {"filename": files["sep-1686"]})
    created = draft.call("tools/call", {"name": "confirm_delete", "arguments": {"filename": files["sep-2557"]}}).result
    draft_id = created["task"]["taskId"]
    heard["sep-2557"].messages = draft.received
    look: dict[str, Callable[[], str]] = {
        "2026-07-28": lambda: str(new.get(new_id, caps=caps).result["status"]),
        "2025-11-25": lambda: str(old.get(old_id).result["status"]),
        "sep-1686": lambda: str(Of1686(older).get(what)["status"]),
        "sep-2557": lambda: str(draft.call("tasks/get", {"taskId": draft_id}).result["status"]),
    }
    return {revision: (_id_of(hub, files[revision]), look[revision]) for revision in WORDS}


def test_all_are_watched_answered_and_cancelled_in_one_console(hub: RunningHub) -> None:
    heard = {revision: Heard() for revision in WORDS}
    with ExitStack() as stack:
        console = Console(hub)
        stack.callback(console.http.close)
        to_answer = _begin(hub, stack, heard, "answer")
        to_cancel = _begin(hub, stack, heard, "cancel")
        listed = console.http.get("/tasks/?state=input_required").text
        inbox = console.http.get("/inbox/").text
        for revision, (public_id, status) in (*to_answer.items(), *to_cancel.items()):
            assert status() == "input_required"
            assert public_id in listed
            assert _question(hub, public_id) in inbox
            page = console.http.get(f"/tasks/{public_id}/")
            assert page.status_code == 200
            assert revision in page.text
        for public_id, status in to_answer.values():
            _answer(hub, console, public_id)
            _becomes(status, "completed")
        for public_id, status in to_cancel.values():
            console.send(f"/tasks/{public_id}/", {}, to=f"/tasks/{public_id}/cancel")
            _becomes(status, "cancelled")
        ends = {revision: heard[revision].messages for revision in WORDS}
    for revision, messages in ends.items():
        used = {word for message in messages for word in words(message)} & ALL
        assert used, revision
        assert used <= WORDS[revision], f"{revision} says {used - WORDS[revision]}"


def _answer(hub: RunningHub, console: Console, public_id: str) -> None:
    (found,) = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s", [public_id]
    )
    page = f"/inbox/{found[0]}/"
    box = re.search(r'<input type="checkbox" name="([^"]+)"', console.http.get(page).text)
    assert box is not None
    console.send(page, {box[1]: "on", "action": "accept"}, to=f"{page}answer")
