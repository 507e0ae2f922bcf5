"""The conversations in `docs/api/` are what a hub really says: each is held here against the page.

`TASKHUB_WRITE_TRANSCRIPTS=1` writes the pages anew instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.docs.test_docs import ROOT
from tests.support.client import TASKS, Client, accept
from tests.support.hub import RunningHub, shared
from tests.support.sep_1686_client import Historical
from tests.support.sep_2557_client import Historical as Draft
from tests.support.session import SessionClient
from tests.support.transcript import Transcript

pytestmark = pytest.mark.processes

BEGIN: Final = "<!-- A conversation, written by tests/docs/test_transcripts.py -->\n"
END: Final = "<!-- the end of the conversation -->\n"
YES: Final[dict[str, Any]] = {"action": "accept", "content": {"confirm": True}}
FORMS: Final[dict[str, Any]] = {"elicitation": {}}


@pytest.fixture(scope="session")
def hub() -> Iterator[RunningHub]:
    """The hub of the session."""
    with shared() as running:
        yield running


def _of_2026(hub: RunningHub, told: Transcript) -> None:
    with Client(hub.base, hub.tokens["agent-a"], told) as client:
        caps = {**TASKS, **FORMS}
        told.say("A tool that runs only as a task answers with a handle:")
        created = client.tool("confirm_delete", {"filename": "a.txt"}, caps=caps).result
        task_id = told.name(created["taskId"], "TASK")
        client.transcript = None
        client.until(task_id, "input_required")
        client.transcript = told
        told.say("Polling shows that the client is asked something:")
        client.get(task_id, caps=caps)
        told.say("It answers:")
        client.update(task_id, {"confirm": accept(confirm=True)}, caps=caps)
        client.transcript = None
        client.until(task_id, "completed")
        client.transcript = told
        told.say("And finds the result in the task:")
        client.get(task_id, caps=caps)
        told.say("Cancelling what has ended changes nothing:")
        client.cancel(task_id, caps=caps)


def _of_2025(hub: RunningHub, told: Transcript) -> None:
    told.say("A session begins:")
    with SessionClient(hub.base, hub.tokens["agent-a"], caps=FORMS, transcript=told) as session:
        told.name(str(session.session_id), "SESSION")
        told.say("A call asks to be a task, and is one at once:")
        task_id = told.name(session.create("confirm_delete", {"filename": "a.txt"}, ttl=7_200_000), "TASK")
        session.transcript = None
        session.until(task_id, "input_required")
        session.transcript = told
        told.say("Polling never shows the result, only where the task stands:")
        session.get(task_id)
        told.say("Asking for the result waits for it. Questions come on its stream, as requests of the server:")
        with session.open("tasks/result", {"taskId": task_id}) as events:
            request = events.until("elicitation/create")
            told.name(request["id"], "taskhub-1")
            session.respond(request, YES)
            events.until("response")
        told.say("An ended task cannot be cancelled:")
        session.call("tasks/cancel", {"taskId": task_id})
        told.say("The session ends; its tasks do not:")
        session.delete()


def _of_1686(hub: RunningHub, told: Transcript) -> None:
    with SessionClient(hub.base, hub.token("historical"), transcript=None) as session:
        told.name(str(session.session_id), "SESSION")
        session.transcript = told
        old = Historical(session)
        told.say("The client chose the id. Before anything else it hears that the task exists:")
        with old.call("report-7", "slow_compute", {"seconds": 3}, keepAlive=60_000) as events:
            session.transcript = None
            old.until("report-7", "working")
            session.transcript = told
            told.say("While the call is still open, it can poll:")
            old.get("report-7")
            told.say("The call itself is answered when the work ends:")
            events.until("response")
        told.say("The same result, asked for by the id:")
        old.result("report-7")
        told.say("The client has no more use for it:")
        session.call("tasks/delete", {"taskId": "report-7"})


def _of_2557(hub: RunningHub, told: Transcript) -> None:
    with Draft(hub.base, hub.tokens["agent-a"], transcript=told) as client:
        told.say("The client declares nothing about tasks, and is given one:")
        task_id = told.name(client.create("confirm_delete", {"filename": "a.txt"})["taskId"], "TASK")
        client.transcript = None
        client.until(task_id, "input_required")
        client.transcript = told
        told.say("It polls, echoing the latest `requestState`, and is asked:")
        client.get(task_id)
        told.say("It answers with the next poll:")
        worker = hub.part("worker")
        worker.suspend()  # it would, now and then, be done before the poll is answered
        try:
            client.get(task_id, {"confirm": YES})
        finally:
            worker.resume()
        client.transcript = None
        client.until(task_id, "completed")
        client.transcript = told
        told.say("And finds the result in the task:")
        client.get(task_id)


STORIES: Final[dict[str, Callable[[RunningHub, Transcript], None]]] = {
    "2026-07-28": _of_2026,
    "2025-11-25": _of_2025,
    "sep-1686": _of_1686,
    "sep-2557": _of_2557,
}


@pytest.mark.parametrize("page", list(STORIES))
def test_the_conversation_on_the_page_is_the_one_that_happens(hub: RunningHub, page: str) -> None:
    told = Transcript()
    STORIES[page](hub, told)
    path = ROOT / "docs" / "api" / f"{page}.md"
    before, begin, rest = path.read_text().partition(BEGIN)
    assert begin, f"{path.name} has no place for a conversation"
    written, end, after = rest.partition(END)
    assert end
    happened = "\n" + told.markdown() + "\n"
    if os.environ.get("TASKHUB_WRITE_TRANSCRIPTS"):
        path.write_text(before + begin + happened + end + after)
        return
    assert written == happened


def test_every_page_of_a_revision_has_a_conversation() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "api").glob("*.md") if path.stem[0].isdigit() or "sep" in path.stem}
    assert pages == set(STORIES)
