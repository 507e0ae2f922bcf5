"""What a worker does with a task: claim, renew, note, finish, fault, release. Every write is fenced."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from taskhub.core.records import Claim, LogLine
from taskhub.core.states import QuestionKind, State
from taskhub.domain.questions.answer import answer_question
from taskhub.domain.sessions.writes import refuse_request
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.reads import lines_after, owned_task
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Attempt, Event, Task
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question


def release(taken: Claim, *, started: bool = False, delay: float = 0.0, reason: str = "why") -> bool:
    return run.release(taken, started=started, delay_seconds=delay, reason=reason, actor=WORKER)


def settle(taken: Claim) -> bool:
    return run.settle_cancel(taken, message="Cancelled while it ran", actor=WORKER)


# --- claim


def test_a_claim_leases_the_task_under_a_new_epoch(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one("w1")
    assert (taken.task_id, taken.epoch, taken.tool_name) == (task.id, 1, world.tool.name)
    assert kit.look(task.id).state is State.WORKING
    assert kit.column(task.id, "lease_until > clock_timestamp()") is True
    (attempt,) = Attempt.objects.filter(task_id=task.id)
    assert (attempt.number, attempt.worker, attempt.ended_at) == (1, "w1", None)


def test_what_is_claimed_is_not_claimed_again(world: World) -> None:
    kit.create(world)
    assert len(kit.claim("w1", limit=10)) == 1
    assert kit.claim("w2", limit=10) == []


def test_a_claim_takes_the_oldest_first_and_no_more_than_its_limit(world: World) -> None:
    ids = [kit.create(world).id for _ in range(3)]
    assert [taken.task_id for taken in kit.claim(limit=2)] == ids[:2]
    assert [taken.task_id for taken in kit.claim(limit=2)] == ids[2:]


def test_a_task_that_is_not_due_yet_waits(world: World) -> None:
    task = kit.create(world)
    kit.turn_back(task.id, "runnable_at", -60)
    assert kit.claim() == []
    kit.turn_back(task.id, "runnable_at", 1)
    assert len(kit.claim()) == 1


def test_a_client_runs_no_more_tasks_at_once_than_allowed(world: World) -> None:
    for _ in range(4):
        kit.create(world)
    assert len(kit.claim(limit=10, per_context=3)) == 3
    assert kit.claim(limit=10, per_context=3) == []


def test_a_client_with_running_tasks_gets_only_the_rest_of_its_share(world: World) -> None:
    for _ in range(5):
        kit.create(world)
    first = kit.claim(limit=2, per_context=3)
    assert len(first) == 2
    assert len(kit.claim(limit=10, per_context=3)) == 1
    kit.finish(first[0])
    assert len(kit.claim(limit=10, per_context=3)) == 1


def test_a_client_at_its_share_does_not_stand_in_the_way_of_others(world: World) -> None:
    other = kit.another_client(world)
    for _ in range(5):
        kit.create(world)
    late = kit.create(other)
    claimed = [taken.task_id for taken in kit.claim(limit=3, per_context=1)]
    assert late.id in claimed
    assert len(claimed) == 2


def test_a_claim_says_whether_more_waits_for_a_task_to_end(world: World) -> None:
    assert kit.claim_and_more(limit=3, per_context=2) == ([], False)
    for _ in range(3):
        kit.create(world)
    taken, more = kit.claim_and_more(limit=1, per_context=2)
    assert (len(taken), more) == (1, True)  # cut off by its own limit
    taken, more = kit.claim_and_more(limit=3, per_context=2)
    assert (len(taken), more) == (1, True)  # cut off by the client's share
    assert kit.claim_and_more(limit=3, per_context=2) == ([], True)
    kit.finish(taken[0])
    taken, more = kit.claim_and_more(limit=3, per_context=2)
    assert (len(taken), more) == (1, False)


def test_a_claim_that_starts_where_the_last_ended_takes_what_is_new_and_a_whole_one_the_rest(world: World) -> None:
    def claimed(since: datetime | None, per_context: int = 10) -> run.Claimed:
        return run.claim_tasks(
            worker="w", limit=10, lease_seconds=60, per_context=per_context, actor=WORKER, since=since
        )

    kit.create(world)
    begin = claimed(None)
    assert begin.since is not None
    late, new = kit.create(world), kit.create(world)
    kit.turn_back(late.id, "runnable_at", 30)
    assert [taken.task_id for taken in claimed(begin.since).tasks] == [new.id]
    assert [taken.task_id for taken in claimed(None).tasks] == [late.id]
    # Where a client's share was used up, older tasks are left: the next one looks at all.
    for _ in range(2):
        kit.create(world)
    assert claimed(None, per_context=4).since is None


def test_a_claim_never_takes_a_task_whose_cancellation_was_asked_for(world: World) -> None:
    kit.create(world)
    Task.objects.update(cancel_requested_at=kit.column(Task.objects.get().pk, "clock_timestamp()"))
    assert kit.claim(limit=10) == []


def test_answers_as_large_as_the_limits_allow_together_do_not_spoil_a_claim(world: World) -> None:
    """Each answer passes the strict decoder, their sum would not; the claim must hand over the whole
    batch, or every task in it would be held and never run."""
    task = kit.create(world)
    sampled = [make_question(QuestionKind.SAMPLING, key=key, upstream_key=key) for key in ("a", "b")]
    kit.ask(kit.claim_one(), *sampled)
    for key in ("a", "b"):
        content = [{"type": "text", "text": ""}] * 30_000
        response = {"role": "assistant", "model": "m", "content": content}
        answer_question(task.id, kit.opened(task.id, key), response, actor=world.actor)
    bystander = kit.create(world)
    claimed = kit.claim(limit=10)
    assert {taken.task_id for taken in claimed} == {task.id, bystander.id}
    (mine,) = [taken for taken in claimed if taken.task_id == task.id]
    assert mine.answers is not None
    assert [len(mine.answers[key]["content"]) for key in ("a", "b")] == [30_000, 30_000]


# --- renew


def test_renewing_keeps_the_lease_and_tells_of_a_wanted_cancellation(world: World) -> None:
    one, two = kit.create(world), kit.create(world)
    claims = kit.claim("w1", limit=2, lease=1)
    request_cancel(two.id, actor=world.actor)
    held = [(taken.task_id, taken.epoch) for taken in claims]
    assert run.renew_leases(worker="w1", held=held, lease_seconds=600) == {one.id: False, two.id: True}
    assert kit.column(one.id, "lease_until > clock_timestamp() + interval '5 minutes'") is True


def test_renewing_is_no_news(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one("w1")
    before = kit.look(task.id)
    run.renew_leases(worker="w1", held=[(task.id, taken.epoch)], lease_seconds=600)
    assert kit.look(task.id) == before


def test_a_lease_that_is_somebody_elses_is_not_renewed(world: World) -> None:
    task, ended = kit.create(world), kit.create(world)
    first, second = kit.claim("w1", limit=2)
    kit.finish(second)
    assert run.renew_leases(worker="w2", held=[(task.id, first.epoch)], lease_seconds=9) == {}
    assert run.renew_leases(worker="w1", held=[(task.id, first.epoch + 1)], lease_seconds=9) == {}
    assert run.renew_leases(worker="w1", held=[(ended.id, second.epoch)], lease_seconds=9) == {}
    assert run.renew_leases(worker="w1", held=[], lease_seconds=9) == {}


# --- note


def updates() -> tuple[int, int]:
    """Of rows of tasks in this transaction: all, and those that wrote no entry into any index."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'task'")
        every, without = cursor.fetchone()
        return every, without


def test_what_changes_while_a_task_runs_is_in_no_index(world: World) -> None:
    """Else every progress note of every task wrote an entry into each of them."""
    hot = []
    for _ in range(5):  # a row whose page has no room left moves, and with it all its entries
        kit.create(world)
        taken = kit.claim_one("w1")
        with transaction.atomic():
            before = updates()
            for step in range(3):
                assert run.note(taken, [LogLine("progress", "on it", float(step), 3.0)])
                assert run.renew_leases(worker="w1", held=[(taken.task_id, taken.epoch)], lease_seconds=60)
            after = updates()
        assert after[0] - before[0] == 6
        hot.append(after[1] - before[1])
    assert max(hot) == 6


def test_a_note_stores_lines_and_the_latest_progress(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    lines = [
        LogLine("info", "starting"),
        LogLine("progress", "half", 1.0, 2.0),
        LogLine("progress", "", 1.5, 2.0),
        LogLine("warning", "nul \0 and \ud800"),
    ]
    assert run.note(taken, lines) is True
    now = kit.look(task.id)
    assert (now.progress, now.total, now.message) == (1.5, 2.0, "")
    assert [line.text for line in lines_after(task.id, 0)][:3] == ["starting", "half", ""]
    assert "\0" not in lines_after(task.id, 0)[3].text


def test_progress_with_words_becomes_the_message_and_without_keeps_it(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    run.note(taken, [LogLine("progress", "half", 1.0, 2.0)])
    run.note(taken, [LogLine("progress", "", 2.0, 2.0)])
    assert (kit.look(task.id).message, kit.look(task.id).progress) == ("half", 2.0)


def test_a_talkative_tool_is_cut_short(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LINES_KEPT", 3)
    task = kit.create(world)
    taken = kit.claim_one()
    for n in range(6):
        assert run.note(taken, [LogLine("progress", str(n), float(n))]) is True
    assert len(lines_after(task.id, 0)) == 3
    assert kit.look(task.id).progress == 5.0


# --- finish and fault


def test_a_result_is_stored_as_it_came(world: World) -> None:
    result = {
        "content": [{"type": "text", "text": "é\U0001f600"}],
        "structuredContent": {"n": 2**64, "z": 1, "a": -0.0},
    }
    task = kit.create(world)
    assert kit.finish(kit.claim_one(), result) is True
    now = kit.look(task.id)
    assert (now.state, now.is_error, now.error_json) == (State.FINISHED, False, None)
    assert json.loads(now.result_json or "") == result
    assert now.ended_at is not None


def test_results_stored_together_are_each_judged_alone(world: World) -> None:
    for _ in range(3):
        kit.create(world)
    first, stale, last = kit.claim(limit=3)
    kit.finish(stale)
    error = {"content": [{"type": "text", "text": "no"}], "isError": True}
    ended = [run.Result(last, kit.FINAL), run.Result(stale, error), run.Result(first, error)]
    assert run.finish_tasks(ended, actor=WORKER) == [True, False, True]
    now = [kit.look(taken.task_id) for taken in (first, stale, last)]
    assert [(task.is_error, task.message) for task in now] == [(True, "no"), (False, ""), (False, "")]
    assert kit.actions(stale.task_id).count("task.write.stale") == 1


def test_one_result_the_database_refuses_does_not_lose_the_others(world: World) -> None:
    for _ in range(2):
        kit.create(world)
    good, bad = kit.claim(limit=2)
    broken = replace(bad, epoch=2**40)  # no epoch that Postgres could read
    stored, refused = run.finish_tasks([run.Result(good, kit.FINAL), run.Result(broken, kit.FINAL)], actor=WORKER)
    assert stored is True
    assert isinstance(refused, psycopg.Error)
    with pytest.raises(psycopg.Error):
        run.finish(broken, kit.FINAL, actor=WORKER)
    assert kit.look(good.task_id).state is State.FINISHED
    assert kit.look(bad.task_id).state is State.WORKING


def test_a_result_that_says_error_is_finished_and_marked(world: World) -> None:
    task = kit.create(world)
    kit.finish(kit.claim_one(), {"content": [{"type": "text", "text": "no such city"}], "isError": True})
    now = kit.look(task.id)
    assert (now.state, now.is_error, now.message) == (State.FINISHED, True, "no such city")


def test_the_message_of_an_error_is_repaired_as_well(world: World) -> None:
    task = kit.create(world)
    assert kit.finish(kit.claim_one(), {"content": [{"type": "text", "text": "no \0 city"}], "isError": True})
    assert kit.look(task.id).message == "no � city"


def test_a_result_that_postgres_cannot_carry_is_repaired_not_lost(world: World) -> None:
    task = kit.create(world)
    assert kit.finish(kit.claim_one(), {"content": [{"type": "text", "text": "a\0b\ud800c", "k\0": float("nan")}]})
    (block,) = json.loads(kit.look(task.id).result_json or "")["content"]
    assert block["text"].startswith("a�b�")
    assert block["text"].endswith("c")
    assert block["k�"] is None


@pytest.mark.parametrize("length", [1_024, 1_025])
def test_of_a_long_error_the_attempt_has_as_much_as_the_task(world: World, length: int) -> None:
    task, other = kit.create(world), kit.create(world)
    error = {"code": -32603, "message": "x" * length}
    assert run.fault(kit.claim_one(), error, actor=WORKER) is True
    kit.ask(kit.claim_one(), make_question(key="q"))
    refuse_request(0, other.id, kit.opened(other.id), error, actor=world.actor)
    for ended in map(kit.look, (task.id, other.id)):
        assert json.loads(ended.error_json or "") == error
        assert ended.message == "x" * 1_024
    assert Attempt.objects.get(task_id=task.id).error == "x" * 1_024


def test_a_fault_keeps_the_jsonrpc_error(world: World) -> None:
    task = kit.create(world)
    error = {"code": -32602, "message": "bad\0 arguments", "data": {"field": "x"}}
    assert run.fault(kit.claim_one(), error, actor=WORKER) is True
    now = kit.look(task.id)
    assert (now.state, now.result_json) == (State.FAULTED, None)
    assert json.loads(now.error_json or "") == {**error, "message": "bad� arguments"}


def test_finishing_in_the_middle_of_a_live_question_closes_it(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    kit.ask(taken, make_question(key="live"), live=True)
    assert kit.finish(taken) is True
    assert kit.look(task.id).questions == ()
    assert kit.count_rows("SELECT count(*) FROM question WHERE state = 'superseded'") == 1


def test_a_finished_task_can_be_read_for_an_hour_at_least(world: World) -> None:
    task = kit.create(world, ttl_ms=1_000)
    taken = kit.claim_one()
    kit.turn_back(task.id, "expires_at", 5)
    kit.finish(taken)
    found = owned_task(world.context.pk, task.public_id)
    assert found is not None
    assert found.ttl_ms is not None
    assert 3_590_000 < found.ttl_ms < 3_700_000


def test_a_task_without_a_time_to_live_keeps_none_when_it_finishes(world: World) -> None:
    task = kit.create(world, ttl_ms=None)
    kit.finish(kit.claim_one())
    assert (kit.look(task.id).ttl_ms, kit.column(task.id, "expires_at")) == (None, None)


def test_a_result_that_took_a_month_is_stored(world: World) -> None:
    """The time to live would go beyond its range; the result may not be lost to that."""
    task = kit.create(world)
    taken = kit.claim_one()
    with kit.superuser_past_the_guards() as raw:
        raw.execute(
            "UPDATE task SET created_at = created_at - interval '31 days', expires_at = clock_timestamp()"
            " WHERE id = %s",
            (task.id,),
        )
    assert kit.finish(taken) is True
    assert kit.look(task.id).ttl_ms == 2_592_000_000


def test_an_ended_task_past_its_time_is_gone_for_its_client_and_kept_for_the_console(world: World) -> None:
    task = kit.create(world)
    kit.finish(kit.claim_one())
    kit.turn_back(task.id, "expires_at", 1)
    assert owned_task(world.context.pk, task.public_id) is None
    assert kit.look(task.id).state is State.FINISHED


# --- zombies

WRITES: dict[str, Callable[[Claim], bool]] = {
    "finish": kit.finish,
    "fault": kit.fault,
    "ask": lambda taken: kit.ask(taken, make_question(key="late")),
    "ask live": lambda taken: kit.ask(taken, make_question(key="late"), live=True),
    "note": lambda taken: run.note(taken, [LogLine("progress", "late", 9.0)]),
    "release": release,
    "settle cancel": settle,
}
RECORDED = {"finish": "finish", "fault": "fault", "ask": "ask", "ask live": "ask"}


def lose(taken: Claim) -> None:
    """The lease runs out and the task is queued again."""
    kit.turn_back(taken.task_id, "lease_until", 1)
    sweep()


def row(task_id: int) -> dict[str, Any]:
    """All columns."""
    return Task.objects.filter(pk=task_id).values().get()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("then", ["queued", "working", "finished", "cancelled"])
def test_a_zombies_write_changes_nothing_and_leaves_a_trace(transactional_db: None, write: str, then: str) -> None:
    world = kit.make_world(idempotent=True)
    task = kit.create(world)
    zombie = kit.claim_one("w1")
    if then in ("queued", "working", "finished"):
        lose(zombie)
    if then in ("working", "finished"):
        taken = kit.claim_one("w2")
        assert taken.epoch == zombie.epoch + 1
        if then == "finished":
            kit.finish(taken)
    if then == "cancelled":
        request_cancel(task.id, actor=world.actor)
        settle(zombie)
    before, told = row(task.id), len(kit.actions(task.id))
    assert before["state"] == then
    assert WRITES[write](zombie) is False
    assert row(task.id) == before
    assert kit.look(task.id).questions == ()
    assert lines_after(task.id, 0) == []
    new = kit.actions(task.id)[told:]
    assert new == (["task.write.stale"] if write in RECORDED else [])
    if new:
        stale = Event.objects.filter(task_id=task.id).latest("id")
        assert stale.after == {
            "write": RECORDED[write], "epoch": zombie.epoch, "current": before["lease_epoch"], "state": then,
        }  # fmt: skip
        assert (stale.actor, stale.door, stale.task_version) == ("worker-1", "worker", None)


def test_a_worker_that_parked_its_task_writes_no_more(world: World) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    kit.ask(taken, make_question())
    before = row(task.id)
    assert kit.finish(taken) is False
    assert row(task.id) == before


# --- release


def test_a_released_task_is_claimed_again_under_the_next_epoch(world: World) -> None:
    task = kit.create(world)
    assert release(kit.claim_one(), reason="Waiting for its server") is True
    now = kit.look(task.id)
    assert (now.state, now.message) == (State.QUEUED, "Waiting for its server")
    assert kit.claim_one("w2").epoch == 2
    assert list(Attempt.objects.order_by("number").values_list("outcome", flat=True)) == ["released", ""]


def test_a_released_task_waits_out_its_delay_and_has_a_wake_up(world: World) -> None:
    kit.create(world)
    taken = kit.claim_one()
    kit.count_rows("WITH gone AS (DELETE FROM procrastinate_jobs RETURNING 1) SELECT count(*) FROM gone")
    assert release(taken, delay=60) is True
    assert kit.claim() == []
    assert kit.wake_ups() == 1


@pytest.mark.parametrize(
    ("idempotent", "started", "state"),
    [
        (True, True, State.QUEUED),
        (True, False, State.QUEUED),
        (False, False, State.QUEUED),
        (False, True, State.INPUT_REQUIRED),
    ],
)
def test_a_tool_that_may_not_run_twice_is_not_given_back_once_it_started(
    transactional_db: None, idempotent: bool, started: bool, state: State
) -> None:
    task = kit.create(kit.make_world(idempotent=idempotent))
    assert release(kit.claim_one(), started=started) is True
    assert kit.look(task.id).state is state


def test_releasing_closes_a_live_question(transactional_db: None) -> None:
    task = kit.create(kit.make_world(idempotent=True))
    taken = kit.claim_one()
    kit.ask(taken, make_question(), live=True)
    assert release(taken, started=True) is True
    assert (kit.look(task.id).state, kit.look(task.id).questions) == (State.QUEUED, ())
    assert kit.actions(task.id)[-1] == "task.released"


@pytest.mark.parametrize("started", [True, False])
def test_a_task_to_be_cancelled_is_cancelled_not_given_back(world: World, started: bool) -> None:
    """Queued it would never be claimed, and nobody would end it."""
    task = kit.create(world)
    taken = kit.claim_one()
    request_cancel(task.id, actor=world.actor)
    assert release(taken, started=started) is True
    assert kit.look(task.id).state is State.CANCELLED


def test_a_policy_of_at_least_once_counts_as_idempotent(transactional_db: None) -> None:
    world = kit.make_world(policy_at_least_once=True)
    task = kit.create(World(world.context, factories.tool_by_id(world.tool.id) or world.tool))
    release(kit.claim_one(), started=True)
    assert kit.look(task.id).state is State.QUEUED
