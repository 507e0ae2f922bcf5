"""An approver asks the requester of a call: what clients of each revision are asked, and how the call goes on."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.protocol.test_answers_of_models import answering
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import rules_in_force
from tests.support.sep_1686_client import Historical
from tests.support.sep_2557_client import Historical as Proposed
from tests.support.session import FORMS, SessionClient

pytestmark = pytest.mark.processes

RULE: dict[str, Any] = {"name": "Asked", "when": "tool.name == 'slow_compute' && args.label == 'Ask'", "then": "ask"}
CALL = ("slow_compute", {"seconds": 0, "label": "Ask"})
BECAUSE = {"action": "accept", "content": {"answer": "for <b>Ada</b>"}}
RESULT = "Computed Ask in 0 s"


@pytest.fixture(scope="module")
def approver(hub: RunningHub) -> Iterator[Person]:
    with rules_in_force(hub, RULE), Person(hub, "approver") as person:
        yield person


@pytest.fixture
def name() -> str:
    """The name of a client of its own."""
    return f"asked-{secrets.token_hex(4)}"


@pytest.fixture
def named(hub: RunningHub, name: str) -> str:
    """Its token."""
    return hub.token(name)


def approval_of(hub: RunningHub, task_id: str) -> int:
    found = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s AND q.kind = 'approval'",
        [task_id],
    )
    return int(found[-1][0])


def task_of(hub: RunningHub, name: str) -> str:
    """The call of this client that waits now."""

    def look() -> str:
        found = hub.sql(
            "SELECT t.public_id FROM task t JOIN auth_context c ON c.id = t.context_id"
            " WHERE c.name = %s AND t.state = 'input_required'",
            [name],
        )
        return str(found[0][0]) if found else ""

    return wait_until(look, "the call")


def asks(approver: Person, question: int, text: str = "For whom?") -> None:
    approver.fill(f"/inbox/{question}/", f"/inbox/{question}/ask", text=text)


def says(approver: Person, question: int) -> str:
    """The state of the card, without its markup's white space."""
    return re.sub(r"\s+", " ", approver.read(f"/inbox/{question}/state"))


def asked_of(requests: dict[str, Any]) -> str:
    """The key of the approver's question among these requests, besides one to open the page of the approval."""
    ((key, request),) = ((key, found) for key, found in requests.items() if not key.startswith("page-"))
    assert request["method"] == "elicitation/create"
    _fits(request["params"])
    return key


def _fits(params: dict[str, Any]) -> None:
    assert "approver, who is asked to approve your call of slow_compute, wants to know" in params["message"]
    assert "For whom?" in params["message"]
    assert list(params["requestedSchema"]["properties"]) == ["answer"]


def goes_on(hub: RunningHub, approver: Person, task: str) -> None:
    """The answer stands on the card, and the call waits for the approval; then it is approved."""
    question = approval_of(hub, task)
    wait_until(lambda: "in the caller’s own words" in says(approver, question), "the answer")
    assert "for &lt;b&gt;Ada&lt;/b&gt;" in says(approver, question)
    assert hub.sql("SELECT state, lease_epoch FROM task WHERE public_id = %s", [task]) == [("input_required", 0)]
    approver.decide(question)


@pytest.mark.req("T26-24", "T26-33", "T26-35", "T26-36")
def test_a_task_of_2026(hub: RunningHub, approver: Person, named: str) -> None:
    caps = {**TASKS, **FORMS}
    with Client(hub.base, named) as client:
        made = client.create(*CALL, caps=caps)
        assert client.get(made).result["status"] == "working"
        asks(approver, approval_of(hub, made))
        found = client.until(made, "input_required")
        key = asked_of(found["inputRequests"])
        refused = client.update(made, {key: {"action": "accept", "content": {"answer": ""}}})
        assert refused.refusal[1] == -32602
        client.update(made, {key: BECAUSE})
        assert client.get(made).result["status"] == "working"
        goes_on(hub, approver, made)
        ended = client.until(made, "completed")
        assert ended["result"]["content"][0]["text"] == RESULT
        client.update(made, {key: BECAUSE})


@pytest.mark.req("B26-61", "B26-63")
def test_a_plain_call_of_2026(hub: RunningHub, approver: Person, name: str, named: str) -> None:
    with Client(hub.base, named) as client, ThreadPoolExecutor(1) as pool:
        calling = pool.submit(client.tool, *CALL, caps=FORMS)
        task = task_of(hub, name)
        asks(approver, approval_of(hub, task))
        asked = calling.result(20).result
        assert asked["resultType"] == "input_required"
        key = asked_of(asked["inputRequests"])
        more = {"inputResponses": {key: BECAUSE}, "requestState": asked["requestState"]}
        again = pool.submit(client.tool, *CALL, caps=FORMS, params=more)
        goes_on(hub, approver, task)
        assert again.result(20).text == RESULT


@pytest.mark.req("B25-21", "T25-37")
def test_a_task_of_2025(hub: RunningHub, approver: Person, named: str) -> None:
    with SessionClient(hub.base, named, caps=FORMS) as session:
        made = session.create(*CALL)
        question = approval_of(hub, made)
        with session.open("tasks/result", {"taskId": made}) as events:
            assert events.event() is not None
            asks(approver, question)
            request = events.until("elicitation/create")
            _fits(request["params"])
            assert session.get(made).result["status"] == "input_required"
            # Taken back, it is withdrawn where it was sent.
            withdraw = re.search(
                rf'action="(/inbox/{question}/ask/\d+/withdraw)"', approver.read(f"/inbox/{question}/")
            )
            assert withdraw is not None
            approver.fill(f"/inbox/{question}/", withdraw[1])
            assert events.until("notifications/cancelled")["params"]["requestId"] == request["id"]
            assert session.get(made).result["status"] == "working"
            asks(approver, question)
            session.respond(events.until("elicitation/create"), BECAUSE)
            goes_on(hub, approver, made)
            assert events.until("response")["result"]["content"][0]["text"] == RESULT


@pytest.mark.req("B25-21")
def test_a_plain_call_of_2025(hub: RunningHub, approver: Person, name: str, named: str) -> None:
    call = {"name": CALL[0], "arguments": CALL[1]}
    for version in ("2025-11-25", "2025-06-18"):
        session = SessionClient(hub.base, named, version=version, caps=FORMS)
        with session, session.open("tools/call", call) as events:
            task = task_of(hub, name)
            asks(approver, approval_of(hub, task))
            request = events.until("elicitation/create")
            _fits(request["params"])
            session.respond(request, BECAUSE)
            goes_on(hub, approver, task)
            assert events.until("response")["result"]["content"][0]["text"] == RESULT


@pytest.mark.req("T25-37")
def test_an_error_in_place_of_an_answer_ends_nothing(hub: RunningHub, approver: Person, named: str) -> None:
    with SessionClient(hub.base, named, caps=FORMS) as session:
        made = session.create(*CALL)
        question = approval_of(hub, made)
        with session.open("tasks/result", {"taskId": made}) as events:
            assert events.event() is not None
            asks(approver, question)
            request = events.until("elicitation/create")
            error = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "no <i>window</i>"}}
            assert session.post(error).status == 202
            wait_until(lambda: "answered with an error" in says(approver, question), "the error")
            assert "no &lt;i&gt;window&lt;/i&gt;" in says(approver, question)
            assert session.get(made).result["status"] == "working"
            approver.decide(question)
            assert events.until("response")["result"]["content"][0]["text"] == RESULT


@pytest.mark.req("T1686-17")
def test_sep_1686(hub: RunningHub, approver: Person, name: str, named: str) -> None:
    with SessionClient(hub.base, named, caps=FORMS) as session:
        old, made = Historical(session), f"mine-{secrets.token_hex(4)}"
        with old.call(made, *CALL) as events:
            task = task_of(hub, name)
            asks(approver, approval_of(hub, task))
            request = events.until("elicitation/create")
            _fits(request["params"])
            assert old.get(made)["status"] == "input_required"
            session.respond(request, BECAUSE)
            goes_on(hub, approver, task)
            assert events.until("response")["result"]["content"][0]["text"] == RESULT


@pytest.mark.req("T2557-10", "T2557-12")
def test_sep_2557(hub: RunningHub, approver: Person, named: str) -> None:
    with Proposed(hub.base, named) as client:
        made = client.create(*CALL)["taskId"]
        asks(approver, approval_of(hub, made))
        found = client.until(made, "input_required")
        key = asked_of(found["inputRequests"])
        client.get(made, responses={key: BECAUSE})
        goes_on(hub, approver, made)
        assert client.until(made, "completed")["result"]["content"][0]["text"] == RESULT


@pytest.mark.req("T25-39")
def test_a_model_answers_where_its_client_takes_no_forms(
    hub: RunningHub, approver: Person, name: str, named: str
) -> None:
    with SessionClient(hub.base, named) as session, ThreadPoolExecutor(1) as pool:
        calling = pool.submit(session.tool, *CALL)
        task = task_of(hub, name)
        asks(approver, approval_of(hub, task))
        tool, arguments, params = answering(calling.result(20).text)
        _fits(params)
        with SessionClient(hub.base, named) as other:
            other.tool(tool, {**arguments, "answer": BECAUSE})
            goes_on(hub, approver, task)
            found = other.tool("taskhub_wait_for_task", {"task_id": task}).result
        assert RESULT in json.dumps(found)


@pytest.mark.req("T26-31")
def test_the_card_says_that_a_client_cannot_be_asked(hub: RunningHub, approver: Person, named: str) -> None:
    with Client(hub.base, named) as client, ExitStack() as stack:
        made = client.create(*CALL, caps=TASKS)
        stack.callback(client.cancel, made)
        page = approver.read(f"/inbox/{approval_of(hub, made)}/")
        assert "This client cannot be asked" in page
        assert f'action="/inbox/{approval_of(hub, made)}/ask"' not in page


@pytest.mark.req("T26-31")
def test_a_person_who_signed_the_program_in_answers_in_the_inbox(
    hub: RunningHub, approver: Person, name: str, named: str
) -> None:
    change = "UPDATE auth_context SET issuer = 'taskhub/oauth', subject = 'user:' || u.id, client_id = %s"
    hub.sql(f"{change} FROM auth_user u WHERE u.username = 'operator' AND name = %s", [name, name])
    with Person(hub, "operator") as requester, Client(hub.base, named) as client:
        made = client.create(*CALL, caps=TASKS)
        asks(approver, approval_of(hub, made))
        assert client.get(made).result["status"] == "working"
        ((question,),) = hub.sql(
            "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id"
            " WHERE t.public_id = %s AND q.about_id IS NOT NULL",
            [made],
        )
        assert "An approver asks about your call" in requester.read(f"/inbox/{question}/")
        assert f'action="/inbox/{question}/answer"' not in approver.read(f"/inbox/{question}/")
        requester.answer(question, f0=BECAUSE["content"]["answer"])  # type: ignore[index] # a str
        told = says(approver, approval_of(hub, made))
        assert "<b>operator</b> answered, in the caller’s own words" in told
        assert "for &lt;b&gt;Ada&lt;/b&gt;" in told
        assert client.get(made).result["status"] == "working"
        client.cancel(made)
