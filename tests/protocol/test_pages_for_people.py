"""The page for the person: a client that opens addresses for its user is offered that of a question for people, on both
eras. What it answers decides nothing."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from taskhub.core.records import Audience, OpenQuestion, QuestionKind, State
from taskhub.protocol.wire.page_links import page_params
from tests.protocol.sep_2557.test_words import make_record
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person, question_at
from tests.support.policies import approval_wanted
from tests.support.session import Events, SessionClient

OPENS: dict[str, Any] = {"elicitation": {"url": {}}}
SIGNED = {"name": "signed", "arguments": {}}
OPENED, DECLINED, DISMISSED = ({"action": action} for action in ("accept", "decline", "cancel"))
MISFIT = "The client's answer does not fit the question at /action: action must be accept, decline or cancel."
MISFITS = [{"action": "yes"}, {}, "str", None, 5]
COMPLETE = "notifications/elicitation/complete"


@pytest.fixture
def approved(hub: RunningHub) -> Iterator[None]:
    """Calls of `signed` wait for somebody of the group ops."""
    with approval_wanted(hub, "signed", {}, group="ops"):
        yield


@pytest.fixture(scope="module")
def approver(hub: RunningHub) -> Iterator[Person]:
    """Signed in once, since that takes longer than a decision."""
    with Person(hub, "approver") as person:
        yield person


@pytest.fixture
def token(hub: RunningHub) -> str:
    """Of a client of its own, so that its calls join no others."""
    return hub.token(f"opens-{secrets.token_hex(4)}")


@pytest.fixture
def hasty(hub: RunningHub) -> str:
    """A token of a client whose patience is a second."""
    client = f"opens-{secrets.token_hex(4)}"
    token = hub.token(client)
    hub.sql("UPDATE auth_context SET patience_ms = 1000 WHERE name = %s", [client])
    return token


@pytest.fixture
def modern(hub: RunningHub, token: str) -> Iterator[Client]:
    with Client(hub.base, token) as client:
        yield client


@pytest.fixture
def session(hub: RunningHub, token: str) -> Iterator[SessionClient]:
    with SessionClient(hub.base, token, caps=OPENS) as session:
        yield session


def offered(hub: RunningHub, params: dict[str, Any]) -> int:
    """The question whose page is offered by these params."""
    assert params["mode"] == "url"
    assert params["message"] == (
        "signed needs an approval before it runs. Somebody of the group ops can give or refuse it on this page, signed"
        " in there. Opening it decides nothing."
    )
    return question_at(hub, params["url"])


def decided(approver: Person, question: int, verdict: str = "approve") -> None:
    approver.decide(question, verdict, reason="" if verdict == "approve" else "No")


def still_open(hub: RunningHub, question: int) -> bool:
    return hub.sql(
        "SELECT q.state, count(d.id) FROM question q LEFT JOIN decision d ON d.question_id = q.id"
        " WHERE q.id = %s GROUP BY q.state",
        [question],
    ) == [("open", 0)]


def runs(hub: RunningHub, question: int) -> int:
    """How many tasks the client of this question has made."""
    return int(
        hub.sql(
            "SELECT count(*) FROM task WHERE context_id = (SELECT t.context_id FROM task t JOIN question q"
            " ON q.task_id = t.id WHERE q.id = %s)",
            [question],
        )[0][0]
    )


def said(hub: RunningHub, question: int) -> list[tuple[str, str]]:
    """What the audit log has of the client's answers to the offer, with their reasons."""
    return hub.sql(
        "SELECT e.action, e.reason FROM event e JOIN question q ON q.task_id = e.task_id"
        " WHERE q.id = %s AND e.action LIKE 'question.page.%%' AND e.door = 'client' ORDER BY e.id",
        [question],
    )


def retry(client: Client, asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The next round, with this answer to all that was asked."""
    given = {"inputResponses": dict.fromkeys(asked["inputRequests"], answer), "requestState": asked["requestState"]}
    return client.tool("signed", {}, caps=OPENS, params=given).result


@pytest.mark.req("B25-21")
@pytest.mark.parametrize(
    ("kind", "group", "quorum", "message"),
    [
        ("approval", "", 1, "t needs an approval before it runs. Somebody with the permission can give or refuse it"),
        ("approval", "", 2, "t needs 2 approvals before it runs. People with the permission can give or refuse them"),
        ("approval", "ops", 3, "t needs 3 approvals before it runs. People of the group ops can give or refuse them"),
        ("elicitation", "", 1, "t asks something that only people answer. Somebody with the permission can answer it"),
        ("elicitation", "ops", 1, "t asks something that only people answer. Somebody of the group ops can answer it"),
        (
            "authorization",
            "",
            1,
            "t cannot run before its server is authorized. Somebody with the permission can authorize it",
        ),
    ],
)
def test_the_message_says_what_is_asked_and_who_can_decide_it(kind: str, group: str, quorum: int, message: str) -> None:
    question = OpenQuestion("q", QuestionKind(kind), {}, Audience.OPERATOR, group, quorum, 0)
    params = page_params(make_record(State.INPUT_REQUIRED), question, "http://hub")
    assert params["message"] == f"{message} on this page, signed in there. Opening it decides nothing."


# 2026-07-28 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [OPENED, DECLINED, DISMISSED])
@pytest.mark.req("B26-61", "B26-62", "B26-63")
def test_a_plain_call_is_offered_the_page_once_and_goes_on_waiting(
    hub: RunningHub, hasty: str, approved: None, answer: dict[str, Any], approver: Person
) -> None:
    with Client(hub.base, hasty) as modern:
        asked = modern.tool("signed", {}, caps=OPENS).result
        assert asked["resultType"] == "input_required"
        ((key, request),) = asked["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert "elicitationId" not in request["params"]
        question = offered(hub, request["params"])
        assert key == "page-approval"
        interim = retry(modern, asked, answer)
        assert interim["resultType"] == "complete"
        assert "it is done at" in interim["content"][0]["text"]
        assert still_open(hub, question)
        assert [action for action, _ in said(hub, question)] == [f"question.page.{answer['action']}"]
        again = modern.tool("signed", {}, caps=OPENS).result
        assert again["resultType"] == "complete", "it is not offered again"
        decided(approver, question)
        wait_until(lambda: "Signed" in str(modern.tool("signed", {}, caps=OPENS).result), "the result")
        assert runs(hub, question) == 1


@pytest.mark.req("B26-61", "B26-63")
def test_a_call_that_streams_is_offered_the_page_and_the_retry_brings_the_result(
    hub: RunningHub, modern: Client, approved: None, approver: Person
) -> None:
    asked = modern.tool("signed", {}, caps=OPENS, meta={"progressToken": "p"}).result
    question = offered(hub, asked["inputRequests"].popitem()[1]["params"])
    decided(approver, question)
    assert retry(modern, {**asked, "inputRequests": {}}, {})["content"][0]["text"] == "Signed"


@pytest.mark.parametrize("caps", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
@pytest.mark.req("B26-62")
def test_who_opens_no_pages_waits_as_before(hub: RunningHub, hasty: str, approved: None, caps: dict[str, Any]) -> None:
    with Client(hub.base, hasty) as modern:
        assert modern.tool("signed", {}, caps=caps).result["resultType"] == "complete"


@pytest.mark.parametrize("name", ["mcp", "fastmcp"])
@pytest.mark.req("B26-62")
def test_a_program_whose_sdk_declares_pages_for_all_is_not_asked(
    hub: RunningHub, hasty: str, approved: None, name: str
) -> None:
    with Client(hub.base, hasty) as modern:
        called = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
        assert modern.tool("signed", {}, caps=OPENS, meta=called).result["resultType"] == "complete"


@pytest.mark.req("B26-62")
def test_a_request_that_opens_no_pages_waits_for_a_task_of_one_that_does(
    hub: RunningHub, hasty: str, approved: None
) -> None:
    with Client(hub.base, hasty) as modern:
        asked = modern.tool("signed", {}, caps={**OPENS, **TASKS}).result
        waited = modern.tool("taskhub_wait_for_task", {"task_id": asked["taskId"]}, caps={}).result
        assert waited["resultType"] == "complete"


@pytest.mark.req("B26-62")
def test_the_offer_is_answered_without_the_right_to_answer(hub: RunningHub, approved: None, approver: Person) -> None:
    token = hub.token(f"opens-{secrets.token_hex(4)}", "tasks:call", "tasks:read")
    with Client(hub.base, token) as client:
        asked = client.tool("signed", {}, caps=OPENS).result
        question = offered(hub, next(iter(asked["inputRequests"].values()))["params"])
        decided(approver, question)
        assert retry(client, asked, OPENED)["content"][0]["text"] == "Signed"


@pytest.mark.parametrize("answer", [OPENED, DECLINED])
@pytest.mark.req("T26-24", "T26-31", "T26-32")
def test_a_task_is_input_required_until_the_offer_is_answered(
    hub: RunningHub, modern: Client, approved: None, answer: dict[str, Any], approver: Person
) -> None:
    caps = {**OPENS, **TASKS}
    task = modern.tool("signed", {}, caps=caps).result["taskId"]
    for declared in (caps, TASKS):  # what counts is what the call declared
        found = modern.call("tasks/get", {"taskId": task}, caps=declared).result
        assert found["status"] == "input_required"
        ((key, request),) = found["inputRequests"].items()
    question = offered(hub, request["params"])
    params = {"taskId": task, "inputResponses": {"approval": {"action": "accept"}}}
    modern.call("tasks/update", params, caps=caps)
    assert modern.call("tasks/get", {"taskId": task}, caps=caps).result["status"] == "input_required"
    modern.call("tasks/update", {"taskId": task, "inputResponses": {key: answer}}, caps=caps)
    now = modern.call("tasks/get", {"taskId": task}, caps=caps).result
    assert (now["status"], now["statusMessage"]) == ("working", "Waiting for approval by ops, 0 of 1")
    assert now["lastUpdatedAt"] > found["lastUpdatedAt"]
    assert still_open(hub, question)
    assert [action for action, _ in said(hub, question)] == [f"question.page.{answer['action']}"]
    decided(approver, question)
    wait_until(lambda: modern.call("tasks/get", {"taskId": task}, caps=caps).result["status"] == "completed", "the end")


@pytest.mark.parametrize("answer", MISFITS)
@pytest.mark.req("T26-36")
def test_what_is_no_answer_to_the_offer_is_refused_and_the_task_waits_for_one(
    hub: RunningHub, modern: Client, approved: None, answer: Any
) -> None:
    caps = {**OPENS, **TASKS}
    task = modern.tool("signed", {}, caps=caps).result["taskId"]
    given = {"taskId": task, "inputResponses": {"page-approval": answer}}
    refused = modern.call("tasks/update", given, caps=caps)
    assert refused.refusal == (200, -32602)
    assert refused.error["data"]["pointer"].startswith("/inputResponses/page-approval")
    found = modern.call("tasks/get", {"taskId": task}, caps=caps).result
    assert (found["status"], list(found["inputRequests"])) == ("input_required", ["page-approval"])
    modern.call("tasks/update", {**given, "inputResponses": {"page-approval": OPENED}}, caps=caps)
    assert modern.call("tasks/get", {"taskId": task}, caps=caps).result["status"] == "working"
    assert modern.call("tasks/update", given, caps=caps).result["resultType"] == "complete", "it is answered already"


@pytest.mark.parametrize("answer", MISFITS)
@pytest.mark.req("B26-65", "B26-67")
def test_a_round_with_what_is_no_answer_is_refused_and_can_be_made_again(
    hub: RunningHub, modern: Client, approved: None, answer: Any, approver: Person
) -> None:
    asked = modern.tool("signed", {}, caps=OPENS).result
    question = offered(hub, next(iter(asked["inputRequests"].values()))["params"])
    given = {"inputResponses": {"page-approval": answer}, "requestState": asked["requestState"]}
    refused = modern.tool("signed", {}, caps=OPENS, params=given)
    assert refused.refusal == (200, -32602)
    if isinstance(answer, dict):  # else it is refused before anybody knows what it is for
        assert refused.error["data"]["pointer"] == "/inputResponses/page-approval/action"
    assert outbound(hub, question) == "offered", "nothing is stored"
    decided(approver, question)
    assert retry(modern, asked, OPENED)["content"][0]["text"] == "Signed"


# 2025-11-25 -----------------------------------------------------------------------------------


def offer_on(events: Events) -> dict[str, Any]:
    request = events.until("elicitation/create")
    assert request["params"]["elicitationId"]
    return request


@pytest.mark.parametrize(
    ("answer", "recorded"),
    [
        ({"result": OPENED}, ("accept", "")),
        ({"result": DECLINED}, ("decline", None)),
        ({"result": {"action": "yes"}}, ("refused", MISFIT)),
        ({"error": {"code": -32603, "message": "No browser"}}, ("refused", "No browser")),
    ],
)
@pytest.mark.req("B25-21", "B25-22")
def test_a_session_is_offered_the_page_and_told_when_it_is_decided(
    hub: RunningHub,
    session: SessionClient,
    approved: None,
    answer: dict[str, Any],
    recorded: tuple[str, str | None],
    approver: Person,
) -> None:
    with session.open("tools/call", SIGNED) as events:
        request = offer_on(events)
        question = offered(hub, request["params"])
        assert session.respond(request, **answer) == 202
        wait_until(lambda: outbound(hub, question) != "open", "the answer to count")
        ((action, reason),) = said(hub, question)
        # How long a machine under load took for the answer decides whether it was the program's own.
        assert (action, None if action.endswith("decline") else reason) == (f"question.page.{recorded[0]}", recorded[1])
        assert still_open(hub, question)
        decided(approver, question)
        rest = events.rest()
    opened = answer == {"result": OPENED}
    ended = [message["params"] for message in rest if message.get("method") == COMPLETE]
    assert ended == ([{"elicitationId": request["params"]["elicitationId"]}] if opened else [])
    assert [message["method"] for message in rest[:-1]] == [COMPLETE] * opened
    assert rest[-1]["result"]["content"][0]["text"] == "Signed"


@pytest.mark.req("B25-21", "B25-22")
def test_an_offer_that_is_not_answered_is_ended_and_withdrawn(
    hub: RunningHub, session: SessionClient, approved: None, approver: Person
) -> None:
    with session.open("tools/call", SIGNED) as events:
        request = offer_on(events)
        decided(approver, offered(hub, request["params"]), "reject")
        ended, withdrawn, answer = events.rest()
    assert (ended["method"], ended["params"]["elicitationId"]) == (COMPLETE, request["params"]["elicitationId"])
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", request["id"])
    assert answer["result"]["isError"]


@pytest.mark.req("B25-22")
def test_the_page_is_not_offered_again_and_its_end_comes_on_the_sessions_own_stream(
    hub: RunningHub, hasty: str, approved: None, approver: Person
) -> None:
    with SessionClient(hub.base, hasty, caps=OPENS) as session:
        with session.open("tools/call", SIGNED) as events:
            request = offer_on(events)
            question = offered(hub, request["params"])
            session.respond(request, OPENED)
            assert "has not ended yet" in str(events.rest()[-1]["result"])
        with session.open("tools/call", SIGNED) as events:
            assert [message.get("method") for message in events.rest()] == [None], "an interim result alone"
        with session.listen() as own:
            own.event()
            decided(approver, question)
            assert own.until(COMPLETE)["params"]["elicitationId"] == request["params"]["elicitationId"]
        assert runs(hub, question) == 1


@pytest.mark.req("B25-21", "B25-16")
def test_an_offer_that_was_not_answered_moves_to_the_next_stream(
    hub: RunningHub, session: SessionClient, approved: None
) -> None:
    with session.open("tools/call", SIGNED) as events:
        first = offer_on(events)
    with session.open("tools/call", SIGNED) as events:
        second = offer_on(events)
    assert (first["id"], first["params"]) == (second["id"], second["params"])


@pytest.mark.req("B25-15", "B25-21")
def test_a_call_in_a_second_session_is_offered_the_page_while_the_first_listens(
    hub: RunningHub, token: str, session: SessionClient, approved: None
) -> None:
    with session.listen() as own, SessionClient(hub.base, token, caps=OPENS) as second:
        with session.open("tools/call", SIGNED) as events:
            first = offer_on(events)
        assert offer_on(own) == first
        with second.open("tools/call", SIGNED) as events:
            assert offer_on(events) == first
            question = offered(hub, first["params"])
            assert second.respond(first, OPENED) == 202
            wait_until(lambda: outbound(hub, question) == "accepted", "the answer to count")


@pytest.mark.parametrize("caps", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
@pytest.mark.req("B25-21", "T25-39")
def test_a_session_that_opens_no_pages_is_offered_none(
    hub: RunningHub, hasty: str, approved: None, caps: dict[str, Any]
) -> None:
    with SessionClient(hub.base, hasty, caps=caps) as session, session.open("tools/call", SIGNED) as events:
        assert [message.get("method") for message in events.rest()] == [None]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26"])
@pytest.mark.req("B25-21")
def test_earlier_versions_have_no_pages(hub: RunningHub, hasty: str, approved: None, version: str) -> None:
    with (
        SessionClient(hub.base, hasty, caps=OPENS, version=version) as session,
        session.open("tools/call", SIGNED) as events,
    ):
        assert [message.get("method") for message in events.rest()] == [None]


@pytest.mark.req("B25-21", "B25-22")
def test_a_task_of_a_session_offers_the_page_where_its_questions_are_read(
    hub: RunningHub, token: str, approved: None, approver: Person
) -> None:
    with SessionClient(hub.base, token, caps={**OPENS, "tasks": {}}) as session:
        task = session.create("signed")
        with session.open("tasks/result", {"taskId": task}) as events:
            request = offer_on(events)
            tied = request["params"]["_meta"]
            assert tied["io.modelcontextprotocol/related-task"] == {"taskId": task}
            question = offered(hub, request["params"])
            assert session.get(task).result["status"] == "working", "it needs nothing of the client"
            session.respond(request, OPENED)
            wait_until(lambda: outbound(hub, question) == "accepted", "the answer to count")
            assert still_open(hub, question)
            decided(approver, question)
            ended = events.until(COMPLETE)["params"]
            assert ended == {"elicitationId": request["params"]["elicitationId"], "_meta": tied}
            assert events.until("response")["result"]["content"][0]["text"] == "Signed"


@pytest.mark.req("T25-39")
def test_another_session_that_opens_no_pages_is_not_sent_the_offer(
    hub: RunningHub, token: str, approved: None, approver: Person
) -> None:
    with SessionClient(hub.base, token, caps={**OPENS, "tasks": {}}) as session:
        task = session.create("signed")
        with session.open("tasks/result", {"taskId": task}) as events:
            question = offered(hub, offer_on(events)["params"])
    with (
        SessionClient(hub.base, token, caps={"tasks": {}, "elicitation": {}}) as other,
        other.open("tasks/result", {"taskId": task}) as events,
    ):
        decided(approver, question)
        assert "elicitation/create" not in [message.get("method") for message in events.rest()]


def outbound(hub: RunningHub, question: int) -> str:
    return str(hub.sql("SELECT state FROM outbound WHERE question_id = %s AND page", [question])[0][0])
