"""The page on which people rule whether a lost run ran."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from taskhub.console.forms.questions import outline
from taskhub.core.states import Audience, Role, State
from taskhub.domain.tasks import run
from taskhub.domain.tasks.checks import end_check, take_checks
from taskhub.domain.tasks.reads import task_by_id
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Decision, Question, Server, Task, Tool
from tests.console.conftest import Login
from tests.console.test_overview_page import words
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_context, make_person, make_question, make_server, make_tool

pytestmark = pytest.mark.django_db

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def world(tenant: Any) -> World:
    heartbeat("worker-1", slots=8, busy=0)
    return World(make_context(tenant, "agent-a"), make_tool(make_server(tenant, "demo"), "deploy"))


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Client:
    return sign_in(make_person(Role.OPERATOR, tenant))


def lost(world: World) -> Question:
    kit.create(world)
    run.lose(kit.claim_one(), told="The connection to server demo was lost while the tool ran", actor=WORKER)
    return Question.objects.filter(kind="outcome", state="open").latest("id")


def rule(client: Client, question: Question, **fields: str) -> Any:
    return client.post(f"/inbox/{question.pk}/rule", fields)


def state(question: Question) -> State:
    task = task_by_id(question.task_id)
    assert task is not None
    return task.state


def test_it_says_what_is_known(world: World, operator: Client) -> None:
    question = lost(world)
    text = words(operator.get(f"/inbox/{question.pk}/").content.decode())
    assert "Did the tool run?" in text
    assert "The connection to server demo was lost while the tool ran." in text
    for told in ("Worker worker-1", "Attempt 1", "Began just now", "Lost just now"):
        assert told in text
    assert "It is being asked" not in text
    assert "Arguments of the call" in text
    assert "was lost while it ran: outcome unknown" in text


@pytest.mark.parametrize(
    ("verdict", "asks"), [("ran", "It ran: end the task?"), ("unrun", "It did not run: run it now?")]
)
def test_a_ruling_is_confirmed_first(world: World, operator: Client, verdict: str, asks: str) -> None:
    question = lost(world)
    page = rule(operator, question, verdict=verdict, reason="seen in the log")
    assert page.status_code == 200
    assert asks in words(page.content.decode())
    assert state(question) is State.INPUT_REQUIRED
    back = rule(operator, question, verdict=verdict, reason="seen in the log", back="1").content.decode()
    assert "seen in the log" in back
    assert asks not in words(back)
    done = rule(operator, question, verdict=verdict, reason="seen in the log", confirmed="1")
    assert done.status_code == 302
    assert state(question) is (State.FINISHED if verdict == "ran" else State.QUEUED)
    decision = Decision.objects.get()
    assert (decision.verdict, decision.reason, decision.door) == (verdict, "seen in the log", "web")


def test_a_ruling_says_what_keeps_the_tool_from_running_again(world: World, operator: Client) -> None:
    question = lost(world)

    def unrun(**more: str) -> str:
        page = operator.post(f"/inbox/{question.pk}/rule", {"verdict": "unrun", "reason": "seen", **more}, follow=True)
        return words(page.content.decode())

    ends = "The tool has been turned off: the next claim of a worker ends the call."
    asks = "The tool has changed since it was called, so an approval will be asked for, with what has changed."
    assert "It did not run: run it now?" in unrun()
    Tool.objects.update(enabled=False)
    assert f"deploy does not run again. {ends}" in unrun()
    Tool.objects.update(enabled=True, digest="1" * 64)
    Server.objects.update(review=True)
    assert f"It does not run at once. {asks}" in unrun()
    assert f"It did not run. {asks}" in unrun(confirmed="1")
    task = str(Task.objects.get(pk=question.task_id).public_id)
    assert asks in words(operator.get(f"/tasks/{task}/").content.decode())
    assert kit.claim() == []
    assert state(question) is State.INPUT_REQUIRED


def test_an_answer_to_a_call_that_will_not_go_on_says_so(world: World, operator: Client) -> None:
    kit.create(world)
    asked = make_question(audience=Audience.OPERATOR)
    run.ask(kit.claim_one(), [asked], upstream_state="s", message="", live=False, actor=WORKER)
    Tool.objects.update(enabled=False)
    (question,) = Question.objects.filter(state="open")
    page = operator.post(f"/inbox/{question.pk}/answer", {"action": "decline"}, follow=True)
    assert "Declined. The tool has been turned off: the next claim of a worker ends the call." in words(
        page.content.decode()
    )
    assert kit.claim() == []
    assert state(question) is State.FAULTED


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"verdict": "ran"}, "Enter a reason: how do you know?"),
        ({"verdict": "ran", "reason": "  "}, "Enter a reason: how do you know?"),
        ({"verdict": "ran", "reason": "\u200b \u2060"}, "Enter a reason: how do you know?"),
        ({"reason": "seen"}, "Choose one of the rulings."),
        ({"verdict": "unrun", "reason": "seen", "result": "done"}, "What did not run has no result."),
        ({"verdict": "ran", "reason": "seen", "result": "{", "as_json": "on"}, "This is no JSON"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_decided(
    world: World, operator: Client, fields: dict[str, str], problem: str
) -> None:
    question = lost(world)
    for confirmed in ({}, {"confirmed": "1"}):
        page = rule(operator, question, **fields, **confirmed)
        assert page.status_code == 422
        assert problem in words(page.content.decode())
    assert state(question) is State.INPUT_REQUIRED


def test_a_result_is_shown_before_it_is_given(world: World, operator: Client) -> None:
    question = lost(world)
    page = rule(operator, question, verdict="ran", reason="seen", result="done by <b>hand</b>")
    assert "done by &lt;b&gt;hand&lt;/b&gt;" in page.content.decode()
    rule(operator, question, verdict="ran", reason="seen", result="done by hand", confirmed="1")
    task = task_by_id(question.task_id)
    assert task is not None
    assert json.loads(task.result_json or "")["content"] == [{"type": "text", "text": "done by hand"}]


def test_a_tool_with_an_output_schema_takes_json(world: World, operator: Client) -> None:
    Tool.objects.filter(pk=world.tool.id).update(definition={"name": "deploy", "outputSchema": SCHEMA})
    question = lost(world)
    asks = operator.get(f"/inbox/{question.pk}/").content.decode()
    assert 'name="as_json"' not in asks
    assert "such as <code>{&quot;n&quot;: 0}</code>" in asks
    refused = rule(operator, question, verdict="ran", reason="seen", result='{"n": "x"}', confirmed="1")
    assert "does not fit the tool’s output schema" in words(refused.content.decode())
    said = "The task ends as a tool error, since the tool’s output schema wants an answer."
    assert said in words(rule(operator, question, verdict="ran", reason="seen").content.decode())
    assert said not in words(rule(operator, question, verdict="ran", reason="seen", result='{"n": 1}').content.decode())
    assert rule(operator, question, verdict="ran", reason="seen", result='{"n": 1}', confirmed="1").status_code == 302


def test_what_a_result_looks_like_is_said_of_any_schema() -> None:
    kinds = {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}, "c": True, "d": {"type": "array"}}
    for schema, shown in (
        ({"properties": kinds}, '{"a": "…", "b": "…", "c": "…", "d": []}'),
        ({"properties": kinds, "required": ["d", "x"]}, '{"d": []}'),
        (
            {"properties": {str(n): {"type": "boolean"} for n in range(9)}},
            '{"0": true, "1": true, "2": true, "3": true, "4": true}',
        ),
        ({"properties": 1, "required": {}}, "{}"),
        ({}, "{}"),
    ):
        assert outline(schema) == shown


def test_the_keys_reach_the_confirmation_and_what_comes_next(world: World, operator: Client) -> None:
    question, another = lost(world), lost(world)
    page = operator.get(f"/inbox/{question.pk}/?tool=deploy").content.decode()
    assert f'href="/inbox/{question.pk}/next?tool=deploy" data-key="s"' in page
    assert operator.get(f"/inbox/{question.pk}/next?tool=deploy")["Location"] == f"/inbox/{another.pk}/?tool=deploy"
    for verdict in ("ran", "unrun"):
        confirm = rule(operator, question, verdict=verdict, reason="seen").content.decode()
        assert re.search(r'<button [^>]*data-key="a"[^>]* name="confirmed"', confirm)
        # The key goes first to what is to be typed: there is nothing of that name.
        assert confirm.count('name="confirmed"') == 1


def test_a_reason_that_is_a_sentence_ends_once(world: World, operator: Client) -> None:
    question = lost(world)
    rule(operator, question, verdict="ran", reason="It is up.", confirmed="1")
    task = task_by_id(question.task_id)
    assert task is not None
    text = json.loads(task.result_json or "")["content"][0]["text"]
    assert "ruled: It is up. Its answer was lost" in text


def test_whoever_is_late_is_told_who_ruled(world: World, operator: Client, tenant: Any, sign_in: Login) -> None:
    question = lost(world)
    rule(operator, question, verdict="ran", reason="seen", confirmed="1")
    late = rule(operator, question, verdict="unrun", reason="seen", confirmed="1")
    text = words(operator.get(late["Location"]).content.decode())
    assert "ruled that it ran" in text
    page = words(operator.get(f"/inbox/{question.pk}/").content.decode())
    assert "Whether the tool ran" in page
    assert "It ran …" not in page


def test_who_may_not_answer_may_not_rule(world: World, tenant: Any, sign_in: Login) -> None:
    question = lost(world)
    for role in (Role.VIEWER, Role.AUDITOR):
        client = sign_in(make_person(role, tenant))
        assert rule(client, question, verdict="ran", reason="seen", confirmed="1").status_code == 403
    assert state(question) is State.INPUT_REQUIRED


def test_the_task_leads_there_and_its_history_tells_of_it(world: World, operator: Client) -> None:
    question = lost(world)
    address = f"/tasks/{question.task.public_id}/"
    page = operator.get(address).content.decode()
    assert f"/inbox/{question.pk}/" in page
    assert "Nobody knows whether the tool did its work." in words(page)
    assert "Outcome unknown" in words(operator.get("/tasks/?state=unknown").content.decode())
    rule(operator, question, verdict="ran", reason="seen", confirmed="1")
    assert "ruled that it ran: seen" in words(operator.get(address).content.decode())
    story = words(operator.get(f"{address}?view=timeline").content.decode())
    for told in ("Lost while it ran", "Ruled: it ran", "1. lost"):
        assert told in story


def test_what_its_companion_says_is_shown(world: World, operator: Client) -> None:
    make_tool(Tool.objects.get(pk=world.tool.id).server, "look", read_only=True)
    Tool.objects.filter(pk=world.tool.id).update(companion={"tool": "look", "arguments": {}})
    question = lost(world)
    address = f"/inbox/{question.pk}/"
    assert "What look says It is being asked." in words(operator.get(address).content.decode())
    (check,) = take_checks()
    end_check(check, result={"content": [], "structuredContent": {"state": "shipped"}}, actor=WORKER)
    text = words(operator.get(f"{address}state").content.decode())
    assert "&quot;state&quot;: &quot;shipped&quot;" in text
    assert "Asked just now with {}" in text
