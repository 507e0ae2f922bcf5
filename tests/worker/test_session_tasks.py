"""Calls that a 2025-11-25 server runs as tasks: polled in the session that made them, until they end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from taskhub.core.records import OpenQuestion
from taskhub.core.states import QuestionKind, State
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, refuse_question
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.store.models import Deferred, Server, TaskLog, Worker
from taskhub.upstream import deferred as upstream_deferred
from taskhub.upstream.sessions import Sessions
from taskhub.upstream.target import Target
from taskhub.worker import polling, running
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.upstream.session_tasks_http import SessionTasksServer
from tests.worker.kit import Hall, attempts, call, ended, in_state, wait_until
from tests.worker.test_running import fault_of, words

pytestmark = pytest.mark.usefixtures("looks_often")

COMMAND = Target("stdio", f"{sys.executable} -m tests.upstream.session_tasks_server")
ADA = {"action": "accept", "content": {"who": "Ada"}}


@pytest.fixture
def over_http() -> Iterator[SessionTasksServer]:
    with SessionTasksServer() as server:
        yield server


@pytest.fixture(params=["a command", "over HTTP"])
def target(request: pytest.FixtureRequest) -> Target:
    if request.param == "a command":
        return COMMAND
    server: SessionTasksServer = request.getfixturevalue("over_http")
    return server.target


def deferred(tool: World, **arguments: object) -> int:
    task = call(tool, **arguments)
    wait_until(lambda: Deferred.objects.filter(task_id=task).exists(), "the deferred call")
    return task


def opened(task: int) -> OpenQuestion:
    in_state(task, State.INPUT_REQUIRED)
    return kit.opened(task)


def started(hall: Hall, target: Target, name: str) -> World:
    server = hall.server(target)
    hall.start(slots=1)
    return hall.tool(server, name)


def test_the_call_ends_with_the_tasks_result_without_what_names_the_task(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "research")
    task = deferred(tool, topic="bees")
    assert words(task) == "about bees"
    assert "_meta" not in json.loads(kit.look(task).result_json or "")
    assert attempts(task) == ["finished"]
    row = Deferred.objects.get(task_id=task)
    assert hall.engine is not None
    assert (row.revision, row.home, row.status) == ("2025-11-25", hall.engine.name, "completed")


def test_the_servers_words_are_shown_and_no_slot_is_held(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "wait")
    tasks = [deferred(tool) for _ in range(3)]
    wait_until(lambda: all(kit.look(task).message == "Halfway" for task in tasks), "the messages")
    for task in tasks:
        request_cancel(task, actor=tool.actor)
    assert [ended(task).message for task in tasks] == ["Cancelled while it ran"] * 3


def test_what_the_task_asks_is_a_question_and_its_answer_goes_back(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "ask")
    tasks = [deferred(tool), deferred(tool)]
    for task, who in zip(tasks, ("Ada", "Bob"), strict=True):
        asked = opened(task)
        assert (asked.kind, asked.params["message"]) == (QuestionKind.ELICITATION, "Who?")
        answer = {"action": "accept", "content": {"who": who}}
        assert answer_question(task, asked, answer, actor=tool.actor) is AnswerOutcome.ANSWERED
    assert [words(task) for task in tasks] == ["hello Ada", "hello Bob"]
    assert [attempts(task) for task in tasks] == [["finished"]] * 2


def test_a_clients_error_goes_back_in_place_of_an_answer(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "ask")
    task = deferred(tool)
    error = {"code": -1, "message": "not now"}
    assert refuse_question(task, opened(task), error, actor=tool.actor) is AnswerOutcome.ANSWERED
    assert words(task) == f"hello {error}"
    assert attempts(task) == ["finished"]


def test_progress_is_shown_before_and_after_the_server_has_made_its_task(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "steps")
    task = deferred(tool)
    assert words(task)
    assert attempts(task) == ["finished"]
    lines = TaskLog.objects.filter(task_id=task, level="progress").order_by("id")
    assert [(line.progress, line.total, line.text) for line in lines] == [
        (1.0, 3.0, "one of three"),
        (2.0, 3.0, "two of three"),
        (3.0, 3.0, ""),
    ]
    found = kit.look(task)
    assert (found.progress, found.total) == (3, 3)


def test_nobody_is_told_of_the_progress_of_another_clients_call(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "wait")
    task = deferred(tool)
    wait_until(lambda: kit.look(task).message == "Halfway", "a poll")
    steps = hall.tool(Server.objects.get(pk=tool.tool.server_id), "steps")
    own, other = f"{task}.1", World(factories.make_context(steps.context.tenant), steps.tool)
    assert words(call(other, of_another=own))
    assert TaskLog.objects.filter(task_id=task).count() == 0
    assert words(call(steps, of_another=own))  # of the same client it is believed
    assert [line.text for line in TaskLog.objects.filter(task_id=task)] == ["of another"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_task_that_has_changed_is_asked_for_soon(
    hall: Hall, over_http: SessionTasksServer, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setattr(upstream_deferred, "next_ms", lambda before_ms, wanted_ms: 60_000)
    if kept:
        monkeypatch.setattr(polling, "LOOK_SECONDS", 1_000.0)
    tool = started(hall, over_http.target, "wait")
    task = deferred(tool)
    wait_until(lambda: kit.look(task).message == "Halfway", "a poll")
    over_http.release()
    assert words(task) == "released"
    assert [sum(tasks.polls.values()) for tasks in over_http.tasks() if tasks.calls] == [2]


def test_the_error_of_the_task_is_that_of_the_call(hall: Hall, target: Target) -> None:
    tool = started(hall, target, "fail")
    task = deferred(tool)
    assert fault_of(task) == "out of paper"
    assert json.loads(kit.look(task).error_json or "")["code"] == -32050


def move(hall: Hall, task: int) -> None:
    """Another worker has the task from now on."""
    hall.stop()
    Worker.objects.update(name="elsewhere", stopped_at="2026-01-01T00:00Z")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    hall.start()


def test_when_its_worker_is_lost_another_goes_on_with_the_session(hall: Hall, over_http: SessionTasksServer) -> None:
    tool = started(hall, over_http.target, "wait")
    task = deferred(tool)
    (session,) = over_http.created
    move(hall, task)
    polls = over_http.sessions[session].polls
    wait_until(lambda: sum(polls.values()) > 3, "polls in the same session")
    assert Deferred.objects.get(task_id=task).session is not None
    over_http.release()
    assert words(task) == "released"
    assert over_http.created == [session]
    assert attempts(task) == ["finished"]
    assert Deferred.objects.get(task_id=task).session is None


def test_its_id_is_stored_encrypted(hall: Hall, over_http: SessionTasksServer) -> None:
    task = deferred(started(hall, over_http.target, "wait"))
    (session,) = over_http.created
    stored = bytes(Deferred.objects.get(task_id=task).session or b"")
    assert stored
    assert session.encode() not in stored


def test_in_it_the_other_worker_hears_what_the_task_asks(
    hall: Hall, over_http: SessionTasksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FIRST_MS", 60_000)  # the first worker does not come to it
    over_http.interval = 60_000
    tool = started(hall, over_http.target, "ask")
    task = deferred(tool)
    move(hall, task)
    answer_question(task, opened(task), ADA, actor=tool.actor)
    assert words(task) == "hello Ada"


def test_a_question_that_came_to_the_lost_worker_is_answered_by_the_other(
    hall: Hall, over_http: SessionTasksServer
) -> None:
    tool = started(hall, over_http.target, "ask")
    task, other = deferred(tool), deferred(tool)
    asked, again = opened(task), opened(other)
    move(hall, task)
    kit.turn_back(other, "poll_at", 1, table="deferred")
    answer_question(task, asked, ADA, actor=tool.actor)
    refuse_question(other, again, {"code": -1, "message": "not now"}, actor=tool.actor)
    assert words(task) == "hello Ada"
    assert words(other) == "hello {'code': -1, 'message': 'not now'}"
    assert [attempts(each) for each in (task, other)] == [["finished"]] * 2


def test_a_session_that_the_server_does_not_know_any_more_leaves_the_outcome_unknown(
    hall: Hall, over_http: SessionTasksServer
) -> None:
    tool = started(hall, over_http.target, "wait")
    task = deferred(tool)
    over_http.sessions.clear()
    move(hall, task)
    asked = opened(task)
    assert asked.kind is QuestionKind.OUTCOME
    assert "no longer knows the task of this call" in asked.params["told"]
    assert attempts(task) == ["lost"]


def test_when_its_worker_is_lost_the_process_of_another_leaves_it_unknown(hall: Hall) -> None:
    tool = started(hall, COMMAND, "wait")
    task = deferred(tool)
    move(hall, task)
    asked = opened(task)
    assert asked.kind is QuestionKind.OUTCOME
    assert "no longer knows the task of this call" in asked.params["told"]
    assert attempts(task) == ["lost"]


@pytest.mark.parametrize("name", ["wait", "ask"])
def test_when_its_command_is_lost_the_outcome_is_unknown(hall: Hall, name: str) -> None:
    tool = started(hall, COMMAND, name)
    task = deferred(tool)
    wait_until(lambda: kit.look(task).message in ("Halfway", "Waiting for an answer by an operator"), "a poll")
    assert hall.engine is not None
    pool = hall.engine.servers.pool(tool.tool.server_id)
    assert pool is not None
    (pid,) = pool.processes()
    os.kill(pid, signal.SIGKILL)
    kit.turn_back(task, "poll_at", 1, table="deferred")  # while an answer is waited for, polls are rare
    wait_until(lambda: [each.kind for each in kit.look(task).questions] == [QuestionKind.OUTCOME], "the loss")
    assert attempts(task) == ["lost"]


def test_when_its_worker_is_lost_another_goes_on_where_its_session_knows_the_task(hall: Hall) -> None:
    with SessionTasksServer(shared=True) as server:
        tool = started(hall, server.target, "wait")
        task = deferred(tool)
        hall.stop()
        kit.turn_back(task, "poll_at", 1, table="deferred")
        server.release()
        hall.start()
        assert words(task) == "released"
        assert len(server.created) == 1
    assert attempts(task) == ["finished"]


def test_a_session_whose_server_runs_a_task_is_not_idle(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_for: list[str] = []
    end = Sessions.end

    def noted(self: Sessions, session: object, why: str) -> None:
        ended_for.append(why)
        end(self, session, why)  # type: ignore[arg-type]

    monkeypatch.setattr(Sessions, "end", noted)
    tool = started(hall, COMMAND, "wait")
    task = deferred(tool)
    wait_until(lambda: kit.look(task).message == "Halfway", "a poll")
    assert hall.engine is not None
    pool = hall.engine.servers.pool(tool.tool.server_id)
    assert pool is not None
    assert pool.sessions.idle() == []
    assert ended_for == []
