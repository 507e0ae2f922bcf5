"""Tasks that the hub hosts for a server of 2025-11-25, which asks in the middle of a call and polls for the answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from taskhub.core.states import Audience, QuestionKind
from taskhub.upstream import hosted
from taskhub.upstream.pool import Pool
from taskhub.upstream.target import Target
from tests.upstream import kit
from tests.upstream.kit import call, text

HOSTING = Target("stdio", f"{sys.executable} -m tests.upstream.hosting_server")
FORM = {"message": "Which word?", "requestedSchema": {"type": "object", "properties": {"word": {"type": "string"}}}}
PROMPT = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9}
REPLY = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}
ACCEPT = {"action": "accept", "content": {"word": "blue"}}
ABLE: dict[str, Any] = {"sampling": {}}
ELICIT = ["elicitation/create", {**FORM, "task": {}}]
GET = ["tasks/get", {"taskId": "$"}]
RESULT = ["tasks/result", {"taskId": "$"}]
CANCEL = ["tasks/cancel", {"taskId": "$"}]
LIST = ["tasks/list", {}]


class Person:
    """Answers what is asked when `answer` is set."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.asked: list[tuple[QuestionKind, dict[str, Any]]] = []
        self.left = 0
        """Questions that were closed before they were answered."""
        self.answers = asyncio.Queue[dict[str, Any]]()
        if answer is not None:
            self.answers.put_nowait(answer)

    async def ask(self, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((kind, params))
        try:
            return await self.answers.get()
        except asyncio.CancelledError:
            self.left += 1
            raise


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with kit.pool_of(HOSTING) as pool:
        yield pool


async def played(pool: Pool, *steps: list[Any], person: Person | None = None, **fields: Any) -> dict[str, Any]:
    """What came back for the steps, and the notifications."""
    ask = kit.nobody_answers if person is None else person.ask
    found: dict[str, Any] = json.loads(text(await call(pool, "play", {"steps": steps}, ask=ask, **fields)))
    return found


@pytest.mark.req("T25-01")
async def test_the_hosting_of_what_may_be_asked_is_declared(pool: Pool) -> None:
    shown = json.loads(text(await call(pool, "initialized")))
    assert shown["tasks"] == {
        "list": {},
        "cancel": {},
        "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
    }
    assert "extensions" not in shown


async def test_it_is_not_declared_to_a_server_that_is_pinned_to_an_older_version() -> None:
    target = Target("stdio", f"{HOSTING.target} 2025-06-18", pinned="2025-06-18")
    async with kit.pool_of(target) as pool:
        assert "tasks" not in json.loads(text(await call(pool, "initialized")))
        (plain,) = (await played(pool, ELICIT, person=Person(ACCEPT)))["answers"]
    assert plain == ACCEPT


@pytest.mark.req("T25-08", "T25-09", "T25-11", "T25-12", "T25-13", "T25-15", "T25-16", "T25-18")
async def test_a_question_is_answered_with_a_task_at_once(pool: Pool) -> None:
    person = Person()
    asking = asyncio.create_task(
        played(pool, ["elicitation/create", {**FORM, "task": {"ttl": 60_000}}], GET, RESULT, person=person)
    )
    await kit.until(lambda: person.asked, "the question")
    person.answers.put_nowait(ACCEPT)
    made, got, result = (await asking)["answers"]
    task = made["task"]
    assert len(task["taskId"]) >= 32
    assert made["_meta"] == {hosted.RELATED: {"taskId": task["taskId"]}}
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 60_000, hosted.POLL_MS)
    assert datetime.fromisoformat(task["createdAt"]) <= datetime.fromisoformat(task["lastUpdatedAt"])
    assert got["taskId"] == task["taskId"]
    assert "_meta" not in got
    assert result == {**ACCEPT, "_meta": made["_meta"]}
    ((kind, params),) = person.asked
    assert kind is QuestionKind.ELICITATION
    assert (params["message"], params["requestedSchema"]) == (FORM["message"], FORM["requestedSchema"])
    assert "task" not in params


@pytest.mark.req("T25-14", "T25-19", "T25-22", "T25-24", "T25-26", "T25-27", "T25-40")
async def test_its_result_can_be_fetched_again_and_its_end_is_told(pool: Pool) -> None:
    found = await played(pool, ELICIT, RESULT, RESULT, GET, LIST, person=Person(ACCEPT))
    made, first, again, got, listed = found["answers"]
    assert first == again == {**ACCEPT, "_meta": made["_meta"]}
    assert got["status"] == "completed"
    assert listed == {"tasks": [got]}
    assert [each["status"] for each in found["notified"]] == ["completed"]


async def test_a_model_may_be_asked_so_too(pool: Pool) -> None:
    asks = ["sampling/createMessage", {**PROMPT, "task": {}}]
    person = Person(REPLY)
    _, result = (await played(pool, asks, RESULT, person=person, client_capabilities=ABLE))["answers"]
    assert {**result, "_meta": None} == {**REPLY, "_meta": None}
    assert [kind for kind, _ in person.asked] == [QuestionKind.SAMPLING]


@pytest.mark.req("T25-21", "T25-25", "T25-28", "T25-29", "T25-31", "T25-33")
async def test_a_task_that_the_server_cancels_closes_its_question(pool: Pool) -> None:
    person = Person()
    waits = [*RESULT, "later"]
    answers = (await played(pool, ELICIT, waits, CANCEL, CANCEL, GET, RESULT, person=person))["answers"]
    _, waited, cancelled, again, got, after = answers
    assert cancelled["status"] == got["status"] == "cancelled"
    assert waited == after == {"code": -32602, "message": "Task was cancelled"}
    assert again == {"code": -32602, "message": "Cannot cancel task: it is cancelled"}
    assert person.left == len(person.asked) == 1


@pytest.mark.req("T25-32")
async def test_who_waits_for_a_result_may_leave_without_harm(pool: Pool) -> None:
    steps = (ELICIT, [*RESULT, "later"], ["cancel", {}], GET)
    _, got = (await played(pool, *steps, person=Person()))["answers"]
    assert got["status"] == "working"


@pytest.mark.req("T25-34", "T25-45")
async def test_an_unknown_task_is_invalid(pool: Pool) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        for params in ({"taskId": "no"}, {"taskId": 5}, {}):
            (refused,) = (await played(pool, [method, params]))["answers"]
            assert refused["code"] == -32602
            assert refused["message"].endswith("Task not found, or expired")
    (refused,) = (await played(pool, ["tasks/list", {"cursor": "x"}]))["answers"]
    assert refused["code"] == -32602


async def test_the_tasks_of_one_connection_are_not_those_of_another(pool: Pool) -> None:
    (made,) = (await played(pool, ELICIT, person=Person(ACCEPT), context_id=1))["answers"]
    theirs = ["tasks/get", {"taskId": made["task"]["taskId"]}]
    (refused, listed) = (await played(pool, theirs, LIST, context_id=2))["answers"]
    assert (refused["code"], listed) == (-32602, {"tasks": []})


@pytest.mark.req("T25-08", "T25-16")
@pytest.mark.parametrize("task", [None, 5, {"ttl": -1}, {"ttl": "1"}, {"ttl": True}])
async def test_a_malformed_task_is_invalid(pool: Pool, task: Any) -> None:
    (refused,) = (await played(pool, ["elicitation/create", {**FORM, "task": task}]))["answers"]
    assert refused["code"] == -32602


@pytest.mark.req("T25-16")
@pytest.mark.parametrize(("wanted", "got"), [(0, 1_000), (1e12, 86_400_000), (None, 86_400_000)])
async def test_the_time_to_live_is_bounded(pool: Pool, wanted: float | None, got: int) -> None:
    made, *_ = (await played(pool, ["elicitation/create", {**FORM, "task": {"ttl": wanted}}], person=Person(ACCEPT)))[
        "answers"
    ]
    assert made["task"]["ttl"] == got


async def test_a_question_that_cannot_be_read_makes_no_task(pool: Pool) -> None:
    refused, listed = (await played(pool, ["elicitation/create", {"task": {}}], LIST))["answers"]
    assert (refused["code"], listed) == (-32602, {"tasks": []})


async def test_what_the_caller_cannot_serve_is_refused_at_once(pool: Pool) -> None:
    policy: dict[str, Any] = {"only_caller": True, "question_audience": Audience.CLIENT}
    refused, listed = (await played(pool, ELICIT, LIST, **policy))["answers"]
    assert refused == {"code": -32601, "message": "The caller of this tool has no means for elicitation by form"}
    assert listed == {"tasks": []}


async def test_a_question_that_cannot_be_asked_fails_its_task(pool: Pool) -> None:
    class Nobody(Person):
        async def ask(self, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
            raise ValueError("not with me")

    _, result, got = (await played(pool, ELICIT, RESULT, GET, person=Nobody()))["answers"]
    assert result == {"code": -32603, "message": "ValueError: not with me"}
    assert got["status"] == "failed"


@pytest.mark.req("T25-17")
async def test_when_its_time_is_over_a_task_is_forgotten_and_its_question_closed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted, "MOST_TTL_MS", 100)
    monkeypatch.setattr(hosted, "LEAST_TTL_MS", 100)
    person = Person()
    _, result, got = (await played(pool, ELICIT, RESULT, GET, person=person))["answers"]
    assert {result["code"], got["code"]} == {-32602}
    assert person.left == len(person.asked) == 1


async def test_when_the_call_ends_its_question_is_closed(pool: Pool) -> None:
    person = Person()
    (made,) = (await played(pool, ELICIT, person=person))["answers"]
    result, got = (
        await played(
            pool,
            ["tasks/result", {"taskId": made["task"]["taskId"]}],
            ["tasks/get", {"taskId": made["task"]["taskId"]}],
        )
    )["answers"]
    assert (result["message"], got["status"]) == ("No call is running on this connection", "failed")
    assert person.left == len(person.asked) == 1


@pytest.mark.req("T25-43")
async def test_the_number_of_tasks_is_bounded(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "MOST_TASKS", 2)
    monkeypatch.setattr(hosted, "MOST_WAITING", 1)
    person = Person()
    steps = (ELICIT, ELICIT, ELICIT, [*RESULT, "later"], RESULT, CANCEL, ELICIT, LIST)
    _, second, third, waited, refused, _, fourth, listed = (await played(pool, *steps, person=person))["answers"]
    assert third == {"code": -32603, "message": "There are 2 tasks already"}
    assert refused == {"code": -32603, "message": "1 requests wait for results already"}
    assert waited["message"] == "Task was cancelled"
    assert [task["taskId"] for task in listed["tasks"]] == [each["task"]["taskId"] for each in (second, fourth)]
