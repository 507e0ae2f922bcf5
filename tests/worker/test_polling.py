"""Calls that their servers run as tasks of their own: polled until they end, without a slot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from taskhub.control.caller import Caller, of_shell
from taskhub.control.servers import remove_server
from taskhub.core.records import OpenQuestion
from taskhub.core.states import QuestionKind, State
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, refuse_question, rule_outcome
from taskhub.domain.tasks.cancel import cancel_now, request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Attempt, Deferred, Event, Question, Server
from taskhub.upstream import deferred as upstream_deferred
from taskhub.worker import given_up as given_up_calls
from taskhub.worker import polling
from tests.domain import kit
from tests.domain.kit import World
from tests.upstream.tasking_server import TaskingServer, question, text
from tests.worker.kit import Hall, attempts, call, ended, in_state, wait_until
from tests.worker.test_running import fault_of, words

pytestmark = pytest.mark.usefixtures("looks_often")

ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
def upstream() -> Iterator[TaskingServer]:
    with TaskingServer(pollIntervalMs=200) as server:
        yield server


@pytest.fixture
def tool(hall: Hall, upstream: TaskingServer) -> World:
    """Its tool, which every call runs as a task; with a worker."""
    server = hall.server(upstream.target)
    hall.start(slots=1)
    return hall.tool(server, "research")


def deferred(tool: World) -> int:
    """A call that the server has taken as a task."""
    task = call(tool)
    wait_until(lambda: Deferred.objects.filter(task_id=task).exists(), "the deferred call")
    return task


def opened(task: int) -> OpenQuestion:
    in_state(task, State.INPUT_REQUIRED)
    return kit.opened(task)


def test_a_call_that_its_server_runs_as_a_task_ends_with_the_tasks_result(
    hall: Hall, tool: World, upstream: TaskingServer
) -> None:
    tasks = [deferred(tool) for _ in range(3)]  # in a worker with a single slot
    assert [kit.look(task).state for task in tasks] == [State.WORKING] * 3
    assert hall.engine is not None
    wait_until(lambda: hall.engine and not hall.engine.slots.running, "a free slot")
    assert sweep() == 0
    for number, task_id in enumerate(list(upstream.tasks)):
        upstream.become("completed", task_id, result=text(f"number {number}"))
    assert [words(task) for task in tasks] == ["number 0", "number 1", "number 2"]
    assert upstream.runs == ["research"] * 3
    assert [attempts(task) for task in tasks] == [["finished"]] * 3
    assert kit.actions(tasks[0]) == ["task.created", "task.claimed", "task.deferred", "task.finished"]
    assert set(Deferred.objects.values_list("status", "poll_at")) == {("completed", None)}
    assert "tasks/cancel" not in upstream.asked


def test_the_servers_words_about_its_task_are_shown_and_polls_without_news_write_nothing(
    tool: World, upstream: TaskingServer
) -> None:
    task = deferred(tool)
    upstream.become("working", statusMessage="Reading page 7")
    wait_until(lambda: kit.look(task).message == "Reading page 7", "the message")
    version, polls = kit.look(task).version, upstream.polls()
    wait_until(lambda: upstream.polls() >= polls + 3, "further polls")
    assert kit.look(task).version == version
    upstream.become("completed", result={**text("no luck"), "isError": True})
    assert (ended(task).state, kit.look(task).is_error, kit.look(task).message) == (State.FINISHED, True, "no luck")


def test_a_task_that_failed_faults_the_call_with_its_error(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    upstream.become("failed", error={"code": -32050, "message": "out of paper", "data": {"tray": 2}})
    assert json.loads(ended(task).error_json or "") == {
        "code": -32050,
        "message": "out of paper",
        "data": {"tray": 2},
    }
    assert Deferred.objects.get(task_id=task).status == "failed"


def test_an_error_that_the_tools_policy_names_is_tried_again(hall: Hall, tool: World, upstream: TaskingServer) -> None:
    policy = {"retry_on": ["-32050", "timeout"], "retry_seconds": 1, "max_attempts": 3}
    again = hall.tool(Server.objects.get(pk=tool.tool.server_id), "research", **policy)
    task = deferred(again)
    upstream.become("failed", error={"code": -32050, "message": "out of paper"})
    wait_until(lambda: Deferred.objects.filter(task_id=task).count() == 2, "the second task")
    kit.turn_back(task, "running_since", 1_000, table="deferred")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    wait_until(lambda: Deferred.objects.filter(task_id=task).count() == 3, "the third task")
    upstream.become("completed", result=text("at last"))
    assert words(task) == "at last"
    assert attempts(task) == ["retried", "retried", "finished"]
    rows = Deferred.objects.filter(task_id=task).order_by("epoch")
    assert [row.status for row in rows] == ["failed", "cancelled", "completed"]


def test_a_server_that_is_removed_is_asked_to_cancel_its_tasks(
    hall: Hall, tool: World, upstream: TaskingServer
) -> None:
    tasks = [deferred(tool) for _ in range(3)]
    remove_server(Caller(tool.context.tenant_id, of_shell().actor), tool.tool.server_id, confirmed=True)
    assert [kit.look(task).message for task in tasks] == ["Not continued: its server has been removed"] * 3
    wait_until(lambda: upstream.asked.count("tasks/cancel") == 3, "the cancellations")
    wait_until(
        lambda: set(Deferred.objects.values_list("status", "poll_at")) == {("cancelled", None)}, "nothing to be polled"
    )


def test_the_result_is_checked_as_that_of_any_call(hall: Hall, tool: World, upstream: TaskingServer) -> None:
    weigh = hall.tool(Server.objects.get(pk=tool.tool.server_id), "weigh")
    task = deferred(weigh)
    upstream.become("completed", result={**text("heavy"), "structuredContent": {"grams": "many"}})
    assert "is not what the output schema of weigh says" in fault_of(task)


def test_questions_of_the_task_are_asked_and_their_answers_sent(tool: World, upstream: TaskingServer) -> None:
    upstream.on_answers = lambda given: {"status": "completed", "result": text(f"hello {given['who']['content']}")}
    task = deferred(tool)
    upstream.become("input_required", inputRequests={"who": question()})
    asked = opened(task)
    assert (asked.key, asked.params["message"], kit.look(task).message) == (
        "who",
        "Your name?",
        "Waiting for an answer by an operator",
    )
    polls = upstream.polls()
    assert answer_question(task, asked, ADA, actor=tool.actor) is AnswerOutcome.ANSWERED
    assert words(task) == "hello {'name': 'Ada'}"
    assert upstream.given == [{"who": ADA}]
    assert upstream.polls() <= polls + 4
    assert upstream.runs == ["research"]
    assert attempts(task) == ["finished"]


def test_of_two_questions_each_answer_is_sent_when_it_is_there(tool: World, upstream: TaskingServer) -> None:
    both = {"who": question(), "where": question("Where?")}

    def left(given: dict[str, object]) -> dict[str, object]:
        for key in given:
            both.pop(key, None)
        return {"status": "input_required", "inputRequests": dict(both)} if both else {"status": "working"}

    upstream.on_answers = left
    task = deferred(tool)
    upstream.become("input_required", inputRequests=dict(both))
    in_state(task, State.INPUT_REQUIRED)
    answer_question(task, kit.opened(task, "where"), ADA, actor=tool.actor)
    wait_until(lambda: upstream.given == [{"where": ADA}], "the first answer")
    assert kit.look(task).state is State.INPUT_REQUIRED
    answer_question(task, kit.opened(task, "who"), ADA, actor=tool.actor)
    wait_until(lambda: {"who": ADA} in upstream.given, "the second answer")
    assert in_state(task, State.WORKING)
    upstream.become("completed", result=text("all said"))
    assert words(task) == "all said"


def test_a_clients_error_ends_the_call_and_cancels_the_task_that_can_be_sent_answers_alone(
    tool: World, upstream: TaskingServer
) -> None:
    task = deferred(tool)
    upstream.become("input_required", inputRequests={"who": question()})
    refuse_question(task, opened(task), {"code": -1, "message": "not now"}, actor=tool.actor)
    assert fault_of(task) == "not now"
    wait_until(lambda: "tasks/cancel" in upstream.asked, "the cancellation")
    assert upstream.given == []


def test_a_question_that_the_server_takes_back_is_closed(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    upstream.become("input_required", inputRequests={"who": question()})
    opened(task)
    upstream.become("working", statusMessage="Never mind")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    assert in_state(task, State.WORKING).message == "Never mind"
    assert Question.objects.get(task_id=task).state == "superseded"


def test_time_in_which_people_are_asked_does_not_count_as_running(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    upstream.become("input_required", inputRequests={"who": question()})
    asked = opened(task)
    assert Deferred.objects.get(task_id=task).running_since is None
    answer_question(task, asked, ADA, actor=tool.actor)
    wait_until(lambda: upstream.given, "the answer")
    assert in_state(task, State.WORKING)
    kit.turn_back(task, "running_since", 1_000, table="deferred")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    assert fault_of(task) == "The tool ran longer than 900 s and was stopped"
    assert upstream.asked.count("tasks/cancel") == 1


def test_a_cancellation_is_passed_on(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    assert request_cancel(task, actor=tool.actor) is State.WORKING
    assert (ended(task).state, kit.look(task).message) == (State.CANCELLED, "Cancelled while it ran")
    assert upstream.tasks == {"up-1": {"status": "cancelled"}}
    assert attempts(task) == ["cancelled"]
    assert Deferred.objects.get(task_id=task).status == "cancelled"


def test_a_server_that_goes_on_has_some_seconds_and_its_result_counts(tool: World, upstream: TaskingServer) -> None:
    upstream.obeys = False
    first, second = deferred(tool), deferred(tool)
    for task in (first, second):
        request_cancel(task, actor=tool.actor)
    wait_until(lambda: upstream.asked.count("tasks/cancel") >= 2, "both requests")
    upstream.become("completed", "up-1", result=text("too late to stop"))
    assert words(first) == "too late to stop"
    kit.turn_back(second, "cancel_at", 11, table="deferred")
    assert ended(second).message == "Cancelled; the tool did not confirm that it stopped"


def test_a_call_that_is_ended_at_once_has_its_servers_task_cancelled_afterwards(
    tool: World, upstream: TaskingServer
) -> None:
    task = deferred(tool)
    cancel_now(task, actor=tool.actor)
    assert kit.look(task).state is State.CANCELLED
    wait_until(lambda: upstream.tasks["up-1"]["status"] == "cancelled", "the server's task")
    wait_until(lambda: Deferred.objects.get(task_id=task).poll_at is None, "no further poll")


def test_a_task_that_the_server_cancels_by_itself_is_cancelled(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    upstream.become("cancelled")
    assert (ended(task).state, kit.look(task).message) == (State.CANCELLED, "Cancelled by its server")


def test_of_a_task_that_the_server_forgot_people_say_whether_it_ran(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    upstream.tasks.clear()
    asked = opened(task)
    assert asked.kind is QuestionKind.OUTCOME
    assert "no longer knows the task of this call (Task not found): outcome unknown" in asked.params["told"]
    assert rule_outcome(task, asked, ran=False, result=None, actor=tool.actor) is AnswerOutcome.ANSWERED
    wait_until(lambda: len(upstream.runs) == 2, "the second run")
    wait_until(lambda: Deferred.objects.filter(task_id=task).count() == 2, "its task")
    upstream.become("completed", result=text("at last"))
    assert words(task) == "at last"
    assert attempts(task) == ["lost", "finished"]
    rows = Deferred.objects.filter(task_id=task).order_by("epoch")
    assert [(row.epoch, row.upstream_id, row.status) for row in rows] == [
        (1, "up-1", "unknown"),
        (2, "up-2", "completed"),
    ]


def test_a_tool_that_may_run_twice_runs_again_when_the_server_forgot_its_task(
    hall: Hall, tool: World, upstream: TaskingServer
) -> None:
    again = hall.tool(Server.objects.get(pk=tool.tool.server_id), "research", policy_at_least_once=True)
    task = deferred(again)
    upstream.tasks.clear()
    wait_until(lambda: Deferred.objects.filter(task_id=task).count() == 2, "the second task")
    upstream.become("completed", result=text("at last"))
    assert words(task) == "at last"
    assert attempts(task) == ["lost", "finished"]


def test_a_server_that_is_silent_for_the_whole_run_time_leaves_an_unknown_outcome(
    tool: World, upstream: TaskingServer
) -> None:
    task = deferred(tool)
    upstream.fails = HTTPStatus.BAD_GATEWAY
    kit.turn_back(task, "running_since", 1_000, table="deferred")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    assert "could not be asked for this call for as long as its tool may run" in opened(task).params["told"]
    assert attempts(task) == ["lost"]


@pytest.fixture
def given_up(tool: World, upstream: TaskingServer, monkeypatch: pytest.MonkeyPatch) -> int:
    """A task whose server was silent for as long as its tool may run."""
    monkeypatch.setattr(given_up_calls, "PAUSE_SECONDS", (0.1, 0.2))
    task = deferred(tool)
    upstream.fails = HTTPStatus.BAD_GATEWAY
    kit.turn_back(task, "running_since", 1_000, table="deferred")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    assert opened(task).kind is QuestionKind.OUTCOME
    return task


def test_when_the_server_is_back_it_is_to_cancel_the_task_of_a_call_that_was_given_up(
    upstream: TaskingServer, given_up: int
) -> None:
    asked = len(upstream.asked)
    wait_until(lambda: len(upstream.asked) >= asked + 2, "two tries in vain")
    upstream.fails = None
    wait_until(lambda: upstream.tasks["up-1"]["status"] == "cancelled", "the cancellation")
    assert opened(given_up).kind is QuestionKind.OUTCOME, "whether it ran is as unknown as before"
    polls = upstream.polls()
    assert Deferred.objects.get(task_id=given_up).status == "unknown"
    assert upstream.polls() <= polls + 1


def test_what_it_came_to_meanwhile_counts(upstream: TaskingServer, given_up: int) -> None:
    upstream.become("completed", result=text("in time after all"))
    upstream.fails = None
    assert words(given_up) == "in time after all"
    assert attempts(given_up) == ["finished"]


def test_but_not_after_a_ruling(tool: World, upstream: TaskingServer, given_up: int) -> None:
    rule_outcome(given_up, opened(given_up), ran=True, result=text("ruled"), actor=tool.actor)
    upstream.become("completed", result=text("in time after all"))
    upstream.fails = None
    cancels = upstream.asked.count("tasks/cancel")
    wait_until(lambda: upstream.asked.count("tasks/cancel") > cancels, "the cancellation")
    assert words(given_up) == "ruled"


def test_a_result_that_is_there_when_the_tool_has_run_for_too_long_counts(
    tool: World, upstream: TaskingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_deferred, "next_ms", lambda before_ms, wanted_ms: 60_000)
    task = deferred(tool)
    wait_until(lambda: Deferred.objects.get(task_id=task).poll_ms == 60_000, "a poll")
    upstream.become("completed", result=text("in time"))
    kit.turn_back(task, "running_since", 1_000, table="deferred")
    kit.turn_back(task, "poll_at", 1, table="deferred")
    assert words(task) == "in time"
    assert "tasks/cancel" in upstream.asked


def test_while_the_server_is_away_its_tasks_wait(
    tool: World, upstream: TaskingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "LONGEST_SECONDS", 1.0)
    tasks = [deferred(tool) for _ in range(3)]
    upstream.fails = HTTPStatus.BAD_GATEWAY
    wait_until(lambda: kit.look(tasks[0]).message == "Waiting for its server, which could not be reached", "the wait")
    asked = len(upstream.asked)
    wait_until(lambda: len(upstream.asked) >= asked + 2, "further tries")
    assert {kit.look(task).state for task in tasks} == {State.WORKING}
    upstream.fails = None
    for task_id in list(upstream.tasks):
        upstream.become("completed", task_id, result=text("back"))
    assert [words(task) for task in tasks] == ["back"] * 3
    assert len(upstream.runs) == 3


def test_another_worker_polls_on_when_one_is_lost(hall: Hall, upstream: TaskingServer) -> None:
    server = hall.server(upstream.target)
    tool = hall.tool(server, "research")
    hall.start()
    task = deferred(tool)
    hall.stop()
    kit.turn_back(task, "poll_at", 1, table="deferred")  # as if the lease of its poll had run out
    upstream.become("completed", result=text("found by the other"))
    hall.start()
    assert words(task) == "found by the other"
    assert upstream.runs == ["research"]
    assert Attempt.objects.filter(task_id=task).count() == 1


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\nb"])
def test_an_id_that_no_header_could_hold_fails_the_call(tool: World, upstream: TaskingServer, bad: str) -> None:
    upstream.next_id = lambda: bad
    assert "the id of its task is not 1 to 256 printable characters" in fault_of(call(tool))


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"status": "paused"}, "a status that the protocol does not know"),
        ({"status": "completed"}, "completed and has no result"),
        ({"status": "completed", "result": {"content": 7}}, "something that is no task"),
        ({"status": "input_required"}, "asked for input without a question"),
        ({"status": "input_required", "inputRequests": {"a": {"method": "ping"}}}, "something that is no task"),
        ({"status": "failed", "statusMessage": "it burnt"}, "it burnt"),
    ],
)
def test_what_a_server_may_not_say_fails_the_call(
    tool: World, upstream: TaskingServer, members: dict[str, object], why: str
) -> None:
    task = deferred(tool)
    upstream.tasks["up-1"] = dict(members)
    assert why in fault_of(task)


def test_the_events_of_a_deferred_call_tell_no_id_of_its_server(tool: World, upstream: TaskingServer) -> None:
    task = deferred(tool)
    event = Event.objects.get(task_id=task, action="task.deferred")
    assert event.after == {"state": "working", "epoch": 1, "revision": "2026-07-28"}
    assert "up-1" not in str(event.after)
