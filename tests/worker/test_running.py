"""A worker at work: it claims, runs, keeps its leases, and stores what came of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from taskhub.control.caller import Caller, of_shell
from taskhub.control.servers import remove_server
from taskhub.core.states import State
from taskhub.domain.catalogue.writes import set_server_enabled
from taskhub.domain.questions.answer import answer_question
from taskhub.domain.tasks import run as lifecycle
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.lib.logs import JsonLine
from taskhub.store.models import Question, Server, TaskLog, Tool, Worker
from taskhub.upstream import call as upstream_call
from taskhub.upstream.target import Target
from taskhub.worker import claiming, engine, running
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.lib.test_schemas import doubling
from tests.store import raw
from tests.upstream import kit as upstream
from tests.upstream.servers import gates
from tests.upstream.test_outputs import promising, schema_of
from tests.worker.kit import Hall, attempts, call, ended, hint, in_state, listening, wait_until


def words(task_id: int) -> str:
    """The text of its result."""
    task = ended(task_id)
    assert task.state is State.FINISHED, task
    (block,) = json.loads(task.result_json or "")["content"]
    return str(block["text"])


def fault_of(task_id: int) -> str:
    task = ended(task_id)
    assert task.state is State.FAULTED, task
    return str(json.loads(task.error_json or "")["message"])


# --- running


def test_an_output_schema_that_takes_for_ever_costs_its_own_task_seconds_and_others_nothing(
    hall: Hall, tmp_path: Path
) -> None:
    slow, hanging = tmp_path / "slow", tmp_path / "hanging"
    slow.mkdir()
    hanging.mkdir()
    content = {"word": "a" * 40 + "!"}
    pattern = hall.server(promising(hanging, schema_of({"pattern": "^(a+)+$"}), content))
    endless = hall.server(promising(slow, {"type": "object", **doubling(60)}, content))
    echo = hall.tool(hall.server(), "echo")
    hall.start()
    misfit, unchecked = call(hall.tool(pattern, "promise")), call(hall.tool(endless, "promise"))
    wait_until(lambda: Tool.objects.filter(name="promise").count() == 2, "both tools")
    wait_until(lambda: attempts(unchecked) == [""], "the call whose check does not end")
    assert words(call(echo, text="meanwhile")) == "meanwhile"
    assert kit.look(unchecked).state is State.WORKING
    assert 'does not match "^(a+)+$"' in fault_of(misfit)
    assert ended(unchecked).state is State.FINISHED
    assert "takes more than" in TaskLog.objects.get(task_id=unchecked, level="warning").text


def test_tools_of_every_kind_of_server_are_run_and_their_results_stored(hall: Hall) -> None:
    here, there = hall.server(), hall.server(upstream.OLD)
    tasks = {
        call(hall.tool(here, "echo"), text="sync"): "sync",
        call(hall.tool(here, "wait_for_gate")): "let go",
        call(hall.tool(there, "echo"), text="over stdio"): "over stdio",
    }
    gates.opened.set()
    hall.start()  # tasks that were there before it are found
    late = call(hall.tool(here, "crash"))
    assert {task: words(task) for task in tasks} == tasks
    assert all(attempts(task) == ["finished"] for task in tasks)
    failed = ended(late)
    assert (failed.state, failed.is_error) == (State.FINISHED, True)


def test_a_form_that_nobody_can_be_shown_faults_its_task_and_is_not_stored(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "ask_oddly")
    hall.start()
    task = call(tool, what="huge")
    assert fault_of(task) == (
        "The tool's server failed: the tool asked something that nobody can be shown: a number is out of range"
    )
    assert not Question.objects.filter(task_id=task).exists()


def test_a_json_rpc_error_faults_the_task(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "protocol_error")
    hall.start()
    assert fault_of(call(tool)) == "no such luck"


def test_the_servers_catalogue_and_the_worker_can_be_read(hall: Hall) -> None:
    server = hall.server()
    worker = hall.start(slots=5)
    server.refresh_from_db()
    assert (server.state, server.protocol, server.info["name"]) == ("ready", "2026-07-28", "workshop")
    assert Tool.objects.get(server=server, name="point").definition["outputSchema"]["required"] == ["x", "y"]
    row = Worker.objects.get(name=worker.name)
    assert (row.slots, row.stopped_at) == (5, None)
    hall.stop()
    row.refresh_from_db()
    assert row.stopped_at is not None


def test_a_worker_runs_no_more_tools_at_once_than_it_has_slots(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "hold")
    others = [kit.another_client(tool), kit.another_client(tool)]  # one has at most half of the slots
    hall.start(slots=2)
    tasks = [call(world, label=label) for world, label in zip([tool, *others], "abc", strict=True)]
    wait_until(lambda: len(gates.starts) == 2, "two of them")
    assert sorted(kit.look(task).state for task in tasks) == [State.QUEUED, State.WORKING, State.WORKING]
    running = next(task for task in tasks if kit.look(task).state is State.WORKING)
    request_cancel(running, actor=tool.actor)
    wait_until(lambda: len(gates.starts) == 3, "the third")
    assert sorted(gates.starts) == ["a", "b", "c"]
    for task in tasks:
        request_cancel(task, actor=tool.actor)


def test_news_of_a_client_with_its_share_here_waits_for_an_end_and_asks_for_nothing(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: list[int] = []
    claim_tasks = lifecycle.claim_tasks

    def counted(**how: Any) -> lifecycle.Claimed:
        claims.append(how["limit"])
        return claim_tasks(**how)

    tool = hall.tool(hall.server(), "hold")
    other = kit.another_client(tool)
    hall.start(slots=4)
    running = [call(tool, label=label) for label in "ab"]
    wait_until(lambda: len(gates.starts) == 2, "its share")
    monkeypatch.setattr(lifecycle, "claim_tasks", counted)
    with listening() as ear:
        waiting = []
        for n in range(20):
            waiting.append(call(tool, label=f"later-{n}"))
            wait_until(lambda: ear.about(waiting[-1], "r"), "its news")
    theirs = call(other, label="other")
    wait_until(lambda: "other" in gates.starts, "another client's")
    assert len(claims) <= 4, "one for the other client; some may have been due by the clock"
    request_cancel(running[0], actor=tool.actor)
    wait_until(lambda: "later-0" in gates.starts, "the next of the first client")
    for task in [*running, *waiting, theirs]:
        request_cancel(task, actor=tool.actor)


def test_what_waits_for_a_busy_server_holds_no_slot_and_its_time_does_not_run(hall: Hall) -> None:
    server = hall.server(calls_at_once=1)
    gate, short = hall.tool(server, "wait_for_gate"), hall.tool(server, "thread_name", run_seconds=1)
    echo = hall.tool(hall.server(), "echo")
    worker = hall.start(slots=4)
    held = call(gate)
    wait_until(gates.entered.is_set, "the call that holds it")
    waiting = [call(short) for _ in range(6)]
    assert words(call(echo, text="passes")) == "passes"
    age = "clock_timestamp() - created_at > interval '1.3 seconds'"
    wait_until(lambda: kit.column(waiting[-1], age), "longer than the tool may run")
    assert [running.claim.task_id for running in worker.slots.running.values()] == [held]
    assert {(kit.look(task).state, kit.column(task, "lease_epoch")) for task in waiting} == {(State.QUEUED, 0)}
    gates.opened.set()
    for task in [held, *waiting]:
        assert ended(task).state is State.FINISHED
        assert attempts(task) == ["finished"]


def test_what_waits_for_people_in_the_middle_of_a_call_holds_no_slot(hall: Hall) -> None:
    notebook = hall.server(upstream.NOTEBOOK)
    ask, remember = hall.tool(notebook, "ask"), hall.tool(notebook, "remember")
    clients = [factories.make_context(hall.context.tenant) for _ in range(3)]
    hall.start(slots=2)
    asking = [call(World(client, ask.tool)) for client in clients[:2]]
    for task in asking:
        in_state(task, State.INPUT_REQUIRED)
    for said in ("one", "one two"):
        assert words(call(World(clients[2], remember.tool), word=said.split()[-1])) == said
    for task in asking:
        answer_question(task, kit.opened(task), {"action": "decline"}, actor=ask.actor)
        assert words(task) == '{"action": "decline"}'


@pytest.mark.usefixtures("looks_often")
def test_a_task_that_gets_no_connection_goes_back_and_has_not_run(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and what is read of a server take connections too."""
    monkeypatch.setattr(running, "CONNECTION_SECONDS", 0.2)
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.1)
    tool = hall.tool(hall.server(upstream.OLD, calls_at_once=1), "echo", run_seconds=60)
    worker = hall.start()
    pool = worker.servers.pool(Tool.objects.get(pk=tool.tool.id).server_id)
    assert pool is not None
    with hall.borrowed(pool):
        task = call(tool, text="late")
        wait_until(lambda: kit.look(task).message == "Waiting for its server", "it to be given back")
        assert kit.look(task).state is State.QUEUED
    assert words(task) == "late"
    assert attempts(task)[-1] == "finished"
    assert "task.faulted" not in kit.actions(task)


def test_a_server_gets_as_many_calls_at_once_as_is_said_of_it(hall: Hall) -> None:
    server = hall.server(calls_at_once=2)
    tool, echo = hall.tool(server, "hold"), hall.tool(hall.server(), "echo")
    worker = hall.start(slots=8)
    held = [call(tool, label=label) for label in "abc"]
    assert words(call(echo, text="beside")) == "beside"
    wait_until(lambda: sorted(gates.starts) == ["a", "b"], "two of them")
    assert kit.look(held[2]).state is State.QUEUED
    pool = worker.servers.pool(server.pk)
    Server.objects.filter(pk=server.pk).update(calls_at_once=3)
    hint("c")
    wait_until(lambda: sorted(gates.starts) == ["a", "b", "c"], "the third")
    assert worker.servers.pool(server.pk) is pool, "what runs there is left alone"
    for task in held:
        request_cancel(task, actor=tool.actor)


@pytest.mark.parametrize("how", ["exit", "interrupt", "cancel"])
def test_a_tool_that_ends_its_process_ends_its_call_and_nothing_else(hall: Hall, how: str) -> None:
    server = hall.server()
    worker = hall.start()
    beside = call(hall.tool(server, "wait_for_gate"))
    wait_until(gates.entered.is_set, "a call beside it")
    said = "SystemExit: 3" if how == "exit" else {"interrupt": "KeyboardInterrupt", "cancel": "CancelledError"}[how]
    for tool in ("leave", "leave_here"):
        task = call(hall.tool(server, tool), how=how)
        assert fault_of(task) == f"The tool's server failed: its code tried to end the process it runs in ({said})"
        assert attempts(task) == ["faulted"]
    if how != "cancel":
        assert said.split(":")[0] in words(call(hall.tool(server, "leave_behind"), how=how))
    gates.opened.set()
    assert words(beside) == "let go"
    assert attempts(beside) == ["finished"]
    assert Worker.objects.get(name=worker.name).stopped_at is None


def test_a_tool_that_blocks_its_thread_stops_neither_heartbeats_nor_leases_nor_other_servers(
    hall: Hall, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HEARTBEAT_SECONDS", 0.1)
    settings.TASKHUB_LEASE_SECONDS = 1.5
    blocked_tool, other = hall.tool(hall.server(), "block"), hall.tool(hall.server(), "echo")
    worker = hall.start()
    blocked = call(blocked_tool)
    wait_until(gates.entered.is_set, "the tool to block")
    lease, beat = kit.column(blocked, "lease_until"), Worker.objects.get(name=worker.name).heartbeat_at
    assert words(call(other, text="free")) == "free"
    wait_until(lambda: Worker.objects.get(name=worker.name).heartbeat_at > beat, "a heartbeat")
    wait_until(lambda: kit.column(blocked, "lease_until") > lease, "a longer lease")
    assert kit.look(blocked).state is State.WORKING
    gates.opened.set()
    assert words(blocked) == "let go"


def test_a_task_whose_lock_was_held_at_the_claim_is_run_as_soon_as_it_is_free(hall: Hall) -> None:
    """Nobody announces it again: whoever held the lock has nothing to say about it."""
    tool = hall.tool(hall.server(), "echo")
    task = call(tool, text="here")
    with raw.connect() as other:
        other.execute("SELECT 1 FROM task WHERE id = %s FOR NO KEY UPDATE", [task])
        hall.start()
        assert words(call(tool, text="there")) == "there"
        free_at = time.monotonic()
    assert words(task) == "here"
    assert time.monotonic() - free_at < claiming.WHOLE_SECONDS / 2


# --- what is said meanwhile


def test_only_a_task_that_runs_for_a_moment_is_announced_as_running(hall: Hall) -> None:
    server = hall.server()
    slow, quick = hall.tool(server, "wait_for_gate"), hall.tool(server, "echo")
    hall.start()
    with listening() as ear:
        done = call(quick, text="x")
        ended(done)
        wait_until(lambda: ear.about(done, "t"), "the news of its end")
        running = call(slow)
        wait_until(lambda: ear.about(running, "t"), "the news that it runs")
        assert kit.look(running).state is State.WORKING
        gates.opened.set()
        ended(running)
        wait_until(lambda: ear.about(running, "t") == 2, "the news of its end")
        assert ear.about(done, "t") == 1


def test_what_a_tool_says_is_written_in_few_steps_and_ends_in_the_task(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "chatter")
    hall.start()
    task = call(tool, lines=200)
    assert words(task) == "said"
    stored = list(TaskLog.objects.filter(task_id=task).order_by("id"))
    assert [line.text for line in stored if line.level == "info"] == [f"line {number}" for number in range(1, 201)]
    assert [line.progress for line in stored if line.level == "progress"] == list(range(1, 201))
    writes = kit.count_rows("SELECT count(DISTINCT xmin::text) FROM task_log WHERE task_id = %s", (task,))
    assert 1 <= writes <= 40
    found = kit.look(task)
    assert (found.progress, found.total) == (200, 200)


def test_progress_shows_while_the_tool_still_runs(hall: Hall) -> None:
    server = hall.server()
    tool = hall.tool(server, "report_and_wait")
    hall.start()
    task = call(tool)
    wait_until(lambda: kit.look(task).progress, "progress")
    found = kit.look(task)
    assert (found.state, found.progress, found.total, found.message) == (State.WORKING, 3, 4, "three of four")
    gates.opened.set()
    assert words(task) == "let go"


# --- questions


def test_a_question_parks_the_task_and_its_answer_brings_it_on(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "ask")
    worker = hall.start()
    task = call(tool)
    for word, key in (("more", "word"), ("done", "word~2")):
        in_state(task, State.INPUT_REQUIRED)
        wait_until(lambda: not worker.slots.running, "a free slot")  # nobody waits in the worker
        answer = {"action": "accept", "content": {"word": word}}
        question = kit.opened(task)
        assert question.key == key
        answer_question(task, question, answer, actor=tool.actor)
    assert words(task) == "heard done in round ++"
    assert attempts(task) == ["asked", "asked", "finished"]


def test_a_tool_that_wants_to_be_called_again_is_within_the_same_attempt(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = hall.tool(hall.server(), "call_again")
    hall.start()
    monkeypatch.setattr(upstream_call, "PAUSES", (0.01, 60.0))
    task = call(tool, times=1)
    assert words(task) == "round 1, nothing answered"
    assert attempts(task) == ["finished"]
    task = call(tool, times=2)
    wait_until(lambda: len(gates.starts) == 4, "the second pause")
    assert kit.look(task).state is State.WORKING
    request_cancel(task, actor=tool.actor)
    assert ended(task).message == "Cancelled while it ran"


def test_a_tool_that_runs_too_long_is_stopped_but_the_time_it_waits_for_an_answer_does_not_count(hall: Hall) -> None:
    patient = hall.tool(hall.server(upstream.OLD), "ask", run_seconds=1)
    slow = hall.tool(hall.server(), "hold", run_seconds=1)
    worker = hall.start()
    asking, running = call(patient), call(slow)
    in_state(asking, State.INPUT_REQUIRED)
    assert fault_of(running) == "The tool ran longer than 1 s and was stopped"
    assert gates.left.is_set()
    assert attempts(running) == ["faulted"]
    age = "clock_timestamp() - created_at > interval '1.3 seconds'"
    wait_until(lambda: kit.column(asking, age), "longer than the tool may run")
    assert [held.claim.task_id for held in worker.slots.running.values()] == [asking]  # it keeps its slot
    answer_question(asking, kit.opened(asking), {"action": "decline"}, actor=patient.actor)
    assert words(asking) == '{"action": "decline"}'
    assert attempts(asking) == ["finished"]


def test_cancelling_a_task_whose_tool_waits_for_an_answer_closes_the_question(hall: Hall) -> None:
    tool = hall.tool(hall.server(upstream.OLD), "ask")
    hall.start()
    task = call(tool)
    in_state(task, State.INPUT_REQUIRED)
    request_cancel(task, actor=tool.actor)
    found = ended(task)
    assert (found.state, found.message, found.questions) == (State.CANCELLED, "Cancelled while it ran", ())


# --- stopping a tool


def test_cancelling_reaches_a_tool_that_runs(hall: Hall) -> None:
    tool = hall.tool(hall.server(), "hold")
    hall.start()
    task = call(tool)
    wait_until(gates.entered.is_set, "the tool to start")
    request_cancel(task, actor=tool.actor)
    found = ended(task)
    assert (found.state, found.message) == (State.CANCELLED, "Cancelled while it ran")
    assert gates.cancelled.is_set()
    assert gates.left.is_set()
    assert attempts(task) == ["cancelled"]


def test_a_call_that_is_cancelled_as_soon_as_it_is_claimed_leaves_its_slot(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = hall.tool(hall.server(), "hold")
    worker = hall.start(slots=1)
    claim, start = lifecycle.claim_tasks, worker.slots.begin

    def claim_and_cancel(**how: Any) -> Any:
        claimed = claim(**how)
        for found in claimed.tasks:
            request_cancel(found.task_id, actor=tool.actor)
        return claimed

    def start_and_hear(found: Any) -> Any:
        held = start(found)
        worker.slots.running[found.task_id].cancel()
        return held

    monkeypatch.setattr(lifecycle, "claim_tasks", claim_and_cancel)
    monkeypatch.setattr(worker.slots, "begin", start_and_hear)
    tasks = [call(tool), call(tool)]
    assert [ended(task).state for task in tasks] == [State.CANCELLED] * 2
    wait_until(lambda: not worker.slots.running, "a free slot")


def test_a_tool_that_does_not_stop_is_said_not_to_have_confirmed_and_its_late_result_is_dropped(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "CANCEL_GRACE_SECONDS", 0.4)
    server = hall.server()
    tool, echo = hall.tool(server, "block"), hall.tool(server, "echo")
    worker = hall.start()
    task = call(tool)
    wait_until(gates.entered.is_set, "the tool to block")
    request_cancel(task, actor=tool.actor)
    found = ended(task)
    assert (found.state, found.message) == (State.CANCELLED, "Cancelled; the tool did not confirm that it stopped")
    assert not gates.left.is_set()
    wait_until(lambda: not worker.slots.running, "a free slot")
    gates.opened.set()
    wait_until(gates.left.is_set, "the tool to end")
    assert words(call(echo, text="next")) == "next"
    now = kit.look(task)
    assert (now.state, now.result_json) == (State.CANCELLED, None)


@pytest.mark.usefixtures("drains_briefly")
def test_a_worker_that_stops_finishes_what_it_can_and_gives_the_rest_back(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskhub.worker.engine")
    monkeypatch.setattr(running, "CANCEL_GRACE_SECONDS", 0.4)
    server = hall.server()
    repeatable = call(hall.tool(server, "hold", policy_at_least_once=True), label="repeatable")
    once = call(hall.tool(server, "hold_again"), label="once")
    soon = call(hall.tool(server, "wait_for_another"))
    blocked = call(hall.tool(hall.server(), "block", policy_at_least_once=True), label="blocked")
    hall.start()
    wait_until(lambda: len(gates.starts) == 4, "all to run")
    hall.ask_to_stop()
    gates.another.set()
    assert words(soon) == "let go"
    unseen = call(hall.tool(server, "echo"), text="too late")
    assert kit.look(once).state is State.WORKING
    in_state(blocked, State.QUEUED)
    assert not gates.opened.is_set(), "given back although its thread is still blocked"
    gates.opened.set()
    hall.stop()
    for task in (repeatable, blocked):
        assert (kit.look(task).state, kit.look(task).message) == (State.QUEUED, "Its worker was stopped")
        assert attempts(task) == ["released"]
    assert kit.opened(once).params["why"] == "worker_stopped"
    assert attempts(once) == ["lost"]
    assert "stopped; tasks that had not ended by themselves: 3" in caplog.text
    assert kit.look(unseen).state is State.QUEUED


# --- servers that are away


def test_calls_at_a_disabled_server_are_not_taken_and_run_once_it_is_enabled(hall: Hall) -> None:
    server = hall.server(enabled=False)
    tool, elsewhere = hall.tool(server, "echo"), hall.tool(hall.server(), "echo")
    paused = [call(tool, text="patience") for _ in range(20)]
    hall.start()
    for number in range(10):  # each of them a claim that has to go past the paused ones
        assert words(call(elsewhere, text=str(number))) == str(number)
    for task in paused:
        now = kit.look(task)
        assert (now.state, now.message) == (State.QUEUED, f"Paused: server {server.name} is disabled")
        assert (kit.actions(task), attempts(task)) == (["task.created"], [])
    set_server_enabled(tenant_id=hall.context.tenant_id, server_id=server.pk, enabled=True, actor=tool.actor)
    assert {words(task) for task in paused} == {"patience"}
    assert {tuple(attempts(task)) for task in paused} == {("finished",)}


def test_a_call_to_a_server_that_cannot_be_reached_is_faulted_and_the_next_finds_it_again(hall: Hall) -> None:
    server = hall.server(Target("python", "tests.upstream.nowhere:server"))
    tool = hall.tool(server, "echo")
    hall.start()
    task = call(tool, text="x")
    assert fault_of(task).startswith(f"Server {server.name} cannot be reached: ")
    # Whoever lists the server says so, a moment before or after the call.
    wait_until(lambda: Server.objects.filter(pk=server.pk, state="unreachable").exists(), "the server's state")
    server.refresh_from_db()
    assert "No module named" in server.problem
    Server.objects.filter(pk=server.pk).update(target=upstream.WORKSHOP.target)
    hint("c")
    wait_until(lambda: Server.objects.filter(pk=server.pk, state="ready").exists(), "the server")
    assert words(call(tool, text="back")) == "back"


def test_a_server_that_is_disabled_is_not_called_any_more(hall: Hall) -> None:
    server, elsewhere = hall.server(upstream.OLD), hall.server()
    tool = hall.tool(server, "echo")
    hall.start()
    assert words(call(tool, text="x")) == "x"
    Server.objects.filter(pk=server.pk).update(enabled=False)
    hint("c")
    wait_until(lambda: upstream.children() == [], "the end of its processes")
    task = call(tool, text="y")
    assert words(call(hall.tool(elsewhere, "echo"), text="z")) == "z"
    assert (kit.look(task).state, attempts(task)) == (State.QUEUED, [])


def test_a_call_that_runs_while_its_server_is_removed_runs_to_its_end_and_one_that_waits_fails(hall: Hall) -> None:
    server = hall.server(calls_at_once=1)
    tool = hall.tool(server, "wait_for_gate")
    hall.start()
    running = call(tool)
    wait_until(gates.entered.is_set, "the tool to start")
    waiting = call(tool)
    live = remove_server(Caller(server.tenant_id, of_shell().actor), server.pk, confirmed=True)
    assert (live.waiting, live.running) == (1, 1)
    assert kit.look(waiting).message == "Not run: its server has been removed"
    wait_until(lambda: hall.engine is not None and hall.engine.servers.held() == [], "the worker to leave the server")
    gates.opened.set()
    assert ended(running).state is State.FINISHED


# --- losing a task, and the database


def lose(task_id: int) -> None:
    """Another worker takes the task, as if this one had been silent for too long."""
    kit.turn_back(task_id, "lease_until", 1)
    sweep()
    assert kit.claim_one("another-worker").task_id == task_id


def test_the_outcome_of_a_task_that_was_lost_is_dropped(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(JsonLine())
    tool = hall.tool(hall.server(), "wait_for_gate", policy_at_least_once=True)
    worker = hall.start(slots=1)
    task = call(tool)
    wait_until(gates.entered.is_set, "the tool to start")
    lose(task)
    gates.opened.set()
    wait_until(lambda: "task.write.stale" in kit.actions(task), "the trace of the late write")
    wait_until(lambda: not worker.slots.running, "a free slot")
    now = kit.look(task)
    assert (now.state, now.result_json) == (State.WORKING, None)
    assert kit.column(task, "worker") == "another-worker"
    assert attempts(task) == ["lost", ""]
    (line,) = [json.loads(line) for line in caplog.text.splitlines() if "lease was lost" in line]
    assert (line["task"], line["server"]) == (now.public_id, "server-1")


def test_a_tool_whose_task_was_lost_is_stopped(hall: Hall, settings: Settings) -> None:
    settings.TASKHUB_LEASE_SECONDS = 1.5
    tool = hall.tool(hall.server(), "hold", policy_at_least_once=True)
    worker = hall.start(slots=1)
    task = call(tool)
    wait_until(gates.entered.is_set, "the tool to start")
    lose(task)
    wait_until(gates.cancelled.is_set, "the tool to be stopped")
    wait_until(lambda: not worker.slots.running, "a free slot")
    assert kit.look(task).state is State.WORKING
    assert kit.column(task, "worker") == "another-worker"
    assert "task.write.stale" not in kit.actions(task)


def test_a_result_survives_the_loss_of_the_workers_database_connections(hall: Hall) -> None:
    server = hall.server()
    tool = hall.tool(server, "wait_for_gate")
    hall.start()
    task = call(tool)
    wait_until(gates.entered.is_set, "the tool to start")
    hall.break_connections()
    gates.opened.set()
    assert words(task) == "let go"
    assert words(call(hall.tool(server, "echo"), text="and on")) == "and on"
