"""Who is asked what a tool asks, where its policy leaves that to the client alone and the client cannot be asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from taskhub.core.records import TaskRecord
from taskhub.core.states import State
from taskhub.domain.questions.answer import answer_question, refuse_question
from taskhub.domain.questions.kinds import can_answer
from taskhub.store.models import Question, Tool
from taskhub.upstream.target import Target
from tests.domain import kit
from tests.domain.kit import World
from tests.upstream import kit as upstream
from tests.upstream.test_hosted import HOSTING
from tests.worker.kit import Hall, ended, in_state

PLAIN: dict[str, Any] = {"join_seconds": 300, "waiter": "w"}


def asking(hall: Hall, policy: str | None, *, target: Target = upstream.WORKSHOP, tool: str = "ask") -> World:
    """A tool with this policy, on a server that a worker is connected to."""
    server = hall.server(target)
    hall.start()
    Tool.objects.filter(server=server, name=tool).update(question_audience=policy)
    return hall.tool(server, tool)


def asked(world: World, **fields: Any) -> TaskRecord:
    return in_state(kit.create(world, arguments={}, **fields).id, State.INPUT_REQUIRED)


@pytest.mark.parametrize("target", [upstream.WORKSHOP, upstream.OLD], ids=["asks and ends", "asks and waits"])
def test_the_model_of_a_plain_call_is_asked_and_no_person(hall: Hall, target: Target) -> None:
    task = asked(asking(hall, "client", target=target), **PLAIN)
    (question,) = task.questions
    assert (question.audience, question.by_tool) == ("client", True)
    assert task.message.startswith("Which word?" if target == upstream.OLD else "Which word, after ''?")
    answer_question(task.id, question, {"action": "accept", "content": {"word": "done"}}, actor=kit.WORKER)
    assert "done" in (ended(task.id).result_json or "")


@pytest.mark.parametrize("policy", [None, "operator", "either"])
def test_where_the_policy_has_people_too_they_are_asked(hall: Hall, policy: str | None) -> None:
    (question,) = asked(asking(hall, policy), **PLAIN).questions
    assert (question.audience, question.by_tool) == ("operator", False)


@pytest.mark.parametrize("listed", [True, False, None])
@pytest.mark.parametrize("by_default", [True, False])
def test_a_client_without_the_hubs_tools_has_nothing_to_answer_with(
    hall: Hall, settings: Settings, listed: bool | None, by_default: bool
) -> None:
    settings.TASKHUB_HUB_TOOLS = by_default
    hall.context.hub_tools = listed
    hall.context.save()
    (question,) = asked(asking(hall, "client"), **PLAIN).questions
    assert question.by_tool is (by_default if listed is None else listed)
    assert question.audience == ("client" if question.by_tool else "operator")


def test_of_a_call_that_is_no_plain_call_people_are_asked(hall: Hall) -> None:
    (question,) = asked(asking(hall, "client")).questions
    assert (question.audience, question.by_tool) == ("operator", False)


def test_only_forms_are_for_a_model(hall: Hall) -> None:
    form, roots = asked(asking(hall, "client", tool="ask_two"), **PLAIN).questions
    assert (form.kind, form.audience, form.by_tool) == ("elicitation", "client", True)
    assert (roots.kind, roots.audience, roots.by_tool) == ("roots", "operator", False)


@pytest.mark.parametrize(
    "capabilities",
    [
        {}, {"sampling": {}}, {"elicitation": {}}, {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}},
        {"elicitation": {"form": {}, "url": {}}}, {"elicitation": None}, {"elicitation": True}, {"elicitation": "form"},
        {"elicitation": ["form"]}, {"elicitation": []}, {"elicitation": {"other": {}}},
    ],
)  # fmt: skip
def test_a_client_that_can_be_asked_is_asked(hall: Hall, capabilities: dict[str, Any]) -> None:
    (question,) = asked(asking(hall, "client"), client_capabilities=capabilities, **PLAIN).questions
    assert question.audience == "client"
    assert question.by_tool is not can_answer(capabilities, question.kind, question.params)


def test_a_tool_that_waits_for_an_answer_hears_the_clients_error(hall: Hall) -> None:
    task = asked(asking(hall, None, target=upstream.OLD))
    error = {"code": -1, "message": "not now", "data": {"until": "noon"}}
    refuse_question(task.id, *task.questions, error, actor=kit.WORKER)
    (content,) = json.loads(ended(task.id).result_json or "")["content"]
    assert json.loads(content["text"]) == error


def test_what_the_program_cannot_answer_is_refused_where_the_policy_says_so(hall: Hall) -> None:
    task = ended(kit.create(asking(hall, "caller"), arguments={}, **PLAIN).id)
    assert "that its caller cannot serve" in (task.error_json or "")
    assert not Question.objects.exists()


def hosted(message: str) -> list[Any]:
    """The step of `hosting_server` that asks, and has the hub host the answer."""
    form = {"message": message, "requestedSchema": {"type": "object", "properties": {}}, "task": {}}
    return ["elicitation/create", form]


def test_a_question_that_a_server_cancels_is_closed_and_its_call_goes_on(hall: Hall, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    cancel, result = (["tasks/cancel", {"taskId": "$"}], ["tasks/result", {"taskId": "$"}])
    steps = [hosted("Which?"), ["read", {"path": str(pipe)}], cancel, result, ["read", {"path": str(pipe)}]]
    task = kit.create(asking(hall, None, target=HOSTING, tool="play"), arguments={"steps": steps})
    in_state(task.id, State.INPUT_REQUIRED)
    pipe.write_bytes(b"")
    assert in_state(task.id, State.WORKING).questions == ()
    pipe.write_bytes(b"")
    found = json.loads(json.loads(ended(task.id).result_json or "")["content"][0]["text"])
    assert found["answers"][-1]["message"] == "Task was cancelled"
    assert kit.actions(task.id)[-3:] == ["task.asked", "task.answered", "task.finished"]


def test_a_question_that_nobody_waits_for_is_closed_with_its_call(hall: Hall) -> None:
    world = asking(hall, None, target=HOSTING, tool="play")
    task = kit.create(world, arguments={"steps": [hosted("Which?")]})
    assert ended(task.id).state is State.FINISHED
    assert not Question.objects.filter(task_id=task.id, state="open").exists()
