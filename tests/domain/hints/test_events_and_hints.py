"""The audit trail of a task, and the hints that make others look: one each per change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Actor, LogLine, TaskRecord
from taskhub.core.states import TRANSITIONS, Door, State
from taskhub.domain.hints import announce as hints
from taskhub.domain.questions.answer import answer_question, decide_approval
from taskhub.domain.sessions import writes as sessions
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Event, Session
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question
from tests.store import raw as sql

ACCEPT = {"action": "accept", "content": {"name": "Ada"}}


# --- events


def a_long_life(world: World) -> int:
    """Through every live state and back."""
    task = kit.create(world)
    run.release(kit.claim_one(), started=False, delay_seconds=0, reason="not now", actor=WORKER)
    taken = kit.claim_one()
    run.note(taken, [LogLine("progress", "half", 1.0, 2.0)])
    kit.ask(taken, make_question(key="parked"))
    answer_question(task.id, kit.opened(task.id), ACCEPT, actor=world.actor)
    taken = kit.claim_one()
    kit.ask(taken, make_question(key="live"), live=True)
    answer_question(task.id, kit.opened(task.id), ACCEPT, actor=world.actor)
    kit.finish(taken)
    return task.id


def test_each_change_of_state_is_one_event(world: World) -> None:
    task_id = a_long_life(world)
    assert kit.actions(task_id) == [
        "task.created",
        "task.claimed",
        "task.released",
        "task.claimed",
        "question.asked",
        "task.asked",
        "question.accept",
        "task.answered",
        "task.claimed",
        "question.asked",
        "task.asked",
        "question.accept",
        "task.answered",
        "task.finished",
    ]


def test_the_events_tell_a_legal_history_that_ends_in_the_tasks_state(world: World) -> None:
    task_id = a_long_life(world)
    events = Event.objects.filter(task_id=task_id, action__startswith="task.").order_by("id")
    state, version = "", 0
    for event in events:
        assert event.after is not None
        if event.action == "task.created":
            assert (event.before, event.after["state"]) == (None, "queued")
        else:
            assert event.before == {"state": state}
            assert (State(state), State(event.after["state"])) in TRANSITIONS[event.action]
        assert event.task_version is not None
        assert event.task_version > version
        state, version = event.after["state"], event.task_version
    assert (state, version) == (str(kit.look(task_id).state), kit.look(task_id).version)


@pytest.mark.parametrize(
    ("bring", "last"),
    [
        (lambda world, task: kit.fault(kit.claim_one()), "task.faulted"),
        (lambda world, task: request_cancel(task, actor=world.actor), "task.cancelled"),
        (lambda world, task: kit.claim_one() and request_cancel(task, actor=world.actor), "task.cancel.requested"),
    ],
)
def test_endings_have_their_own_names(world: World, bring: Any, last: str) -> None:
    task = kit.create(world)
    bring(world, task.id)
    assert kit.actions(task.id)[-1] == last


def test_an_event_says_who_and_from_where(world: World) -> None:
    task = kit.create(world)
    kit.finish(kit.claim_one())
    created, claimed, finished = Event.objects.filter(task_id=task.id).order_by("id")
    assert (created.actor, created.door, created.address, created.context_id, created.user_id) == (
        world.context.name,
        "client",
        "192.0.2.7",
        world.context.pk,
        None,
    )
    assert (created.tenant_id, created.target) == (world.context.tenant_id, world.tool.exposed_name)
    # The worker acts for nobody; the task's own client stands there, so that it can be found.
    assert (claimed.actor, claimed.door, claimed.address, claimed.context_id) == (
        "worker-1",
        "worker",
        "",
        world.context.pk,
    )
    assert finished.actor == "worker-1"


def test_an_operators_cancellation_names_the_operator_and_the_reason(world: World) -> None:
    task = kit.create(world)
    user = factories.make_user("ada")
    ada = Actor(name="ada", door=Door.WEB, address="192.0.2.9", user_id=user.pk, reason="by mistake")
    request_cancel(task.id, actor=ada)
    event = Event.objects.get(task_id=task.id, action="task.cancelled")
    assert (event.actor, event.door, event.address, event.user_id, event.reason) == (
        "ada",
        "web",
        "192.0.2.9",
        user.pk,
        "by mistake",
    )


def test_what_time_brings_about_is_done_by_policy(transactional_db: None) -> None:
    task = kit.create(kit.make_world(idempotent=True))
    kit.claim_one()
    kit.turn_back(task.id, "lease_until", 1)
    sweep()
    event = Event.objects.filter(task_id=task.id).latest("id")
    assert (event.action, event.actor, event.door) == ("task.released", "sweep", "policy")


def test_a_change_by_hand_is_recorded_under_the_database_role(world: World) -> None:
    task = kit.create(world)
    with sql.connect() as raw:
        sql.move(raw, task.id, "cancelled")
    event = Event.objects.get(task_id=task.id, action="task.cancelled")
    assert (event.actor, event.door) == ("taskhub", "sql")


def test_one_actor_does_not_leak_into_the_next_change_on_the_same_connection(world: World) -> None:
    task = kit.create(world)
    with transaction.atomic():
        kit.claim_one()
        transaction.set_rollback(True)
    kit.count_rows(
        "WITH c AS (UPDATE task SET message = 'x', cancel_requested_at = clock_timestamp(),"
        " ended_at = clock_timestamp(), state = 'cancelled' RETURNING 1) SELECT count(*) FROM c"
    )
    assert Event.objects.get(task_id=task.id, action="task.cancelled").actor == "taskhub"


def test_every_person_who_approves_is_an_event_but_the_state_changes_once(transactional_db: None) -> None:
    task = kit.create(kit.make_world(asks={"quorum": 2}))
    for name in ("ada", "bob"):
        actor = Actor(name=name, door=Door.WEB, user_id=factories.make_user(name).pk)
        decide_approval(task.id, kit.opened(task.id), approve=True, actor=actor)
    approved = ["question.approve", "question.approve", "task.answered"]
    assert kit.actions(task.id) == ["task.created", "question.asked", *approved]


# --- hints


class Ear:
    """A connection that listens."""

    def __init__(self, raw: sql.Raw) -> None:
        stranger = kit.make_world(asks={})
        self.marks = [kit.create(stranger) for _ in range(12)]
        self.ignored = {mark.public_id for mark in self.marks}
        self.raw = raw
        raw.execute(f"LISTEN {HINT_CHANNEL}")

    def heard(self) -> list[str]:
        """Everything announced since the last look. The application announces in order, from a thread
        of its own: when a mark enqueued now was announced again, all before it were. A hint of our own
        that is sent after that comes after them."""
        mark = self.marks.pop()
        hints._enqueue((mark.id,), 0.0)
        found = self._up_to(mark.public_id)
        self.raw.execute("SELECT pg_notify(%s, %s)", (HINT_CHANNEL, f"end {mark.public_id}"))
        found += self._up_to(f"end {mark.public_id}")
        return [hint for hint in found if hint.split(" ")[-1] not in self.ignored]

    def _up_to(self, last: str) -> list[str]:
        found: list[str] = []
        end = time.monotonic() + kit.BOUND
        while not any(hint.endswith(last) for hint in found):
            assert time.monotonic() < end, f"{last} never came; heard {found}"
            for notify in self.raw.notifies(timeout=kit.BOUND, stop_after=1):
                found += notify.payload.split(";")  # the announcer sends what has gathered in one
        return found


@pytest.fixture
def ear(world: World) -> Iterator[Ear]:
    with sql.connect(autocommit=True) as raw:
        made = Ear(raw)
        made.heard()  # up to the creation of the last mark
        yield made


def payload(kind: str, world: World, task: TaskRecord) -> str:
    return f"{kind} {world.context.tenant_id} {world.context.pk} {task.id} {task.public_id}"


def test_each_committed_change_is_announced_once(world: World, ear: Ear) -> None:
    task = kit.create(world)
    assert ear.heard() == [payload("r", world, task)]
    taken = kit.claim_one()
    assert ear.heard() == []  # most tools are done before anybody could look
    run.announce_running(task.id)
    assert ear.heard() == [payload("t", world, task)]
    run.note(taken, [LogLine("info", "hello")])
    assert ear.heard() == [payload("t", world, task)]
    kit.ask(taken, make_question())
    assert ear.heard() == [payload("t", world, task)]
    answer_question(task.id, kit.opened(task.id), ACCEPT, actor=world.actor)
    assert ear.heard() == [payload("r", world, task)]
    taken = kit.claim_one()
    ear.heard()
    request_cancel(task.id, actor=world.actor)
    assert ear.heard() == [payload("x", world, task)]
    kit.finish(taken)
    assert ear.heard() == [payload("t", world, task)]


def test_a_process_that_ends_waits_for_its_hints_but_not_for_ever(world: World, ear: Ear) -> None:
    task = kit.create(world)
    ear.heard()
    with sql.connect() as raw:
        raw.execute("LOCK TABLE task IN ACCESS EXCLUSIVE MODE")  # what the hint is made from
        hints.announce(task.id)
        began = time.monotonic()
        hints.flush(0.2)
        assert time.monotonic() - began >= 0.2
    hints.flush(kit.BOUND)
    ear.raw.execute("SELECT pg_notify(%s, %s)", (HINT_CHANNEL, "after"))
    assert ear._up_to("after")[0] == payload("r", world, task)


@pytest.fixture
def announcer() -> Iterator[ThreadPoolExecutor]:
    """A thread that announces on a connection of its own, as the one of the process does."""
    with ThreadPoolExecutor(1) as made:
        yield made
        made.submit(lambda: connection.close()).result(kit.BOUND)  # noqa: PLW0108 - its own, not ours


def asked_there(announcer: ThreadPoolExecutor, what: str) -> str:
    """What the announcer's own session of the database says of itself."""

    def ask() -> str:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {what}")
            return str(cursor.fetchone()[0])

    return announcer.submit(ask).result(kit.BOUND)


def test_announcing_waits_for_no_disk(world: World, announcer: ThreadPoolExecutor) -> None:
    task = kit.create(world)
    announcer.submit(hints._tell, {task.id}).result(kit.BOUND)
    assert asked_there(announcer, "current_setting('synchronous_commit')") == "off"


def test_a_lost_connection_costs_no_hint_and_no_later_wait(
    world: World, ear: Ear, announcer: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    task = kit.create(world)
    ear.heard()
    announcer.submit(hints._tell, {task.id}).result(kit.BOUND)
    ear.raw.execute("SELECT pg_terminate_backend(%s, 5000)", (int(asked_there(announcer, "pg_backend_pid()")),))
    announcer.submit(hints._tell, {task.id}).result(kit.BOUND)
    announcer.submit(hints._tell, {task.id}).result(kit.BOUND)
    assert [record for record in caplog.records if record.name == hints.__name__] == []
    assert ear.heard() == [payload("r", world, task)] * 3
    assert asked_there(announcer, "current_setting('synchronous_commit')") == "off"


def test_a_stream_that_is_left_open_has_another_look_at_its_task_and_a_finished_one_not(world: World, ear: Ear) -> None:
    task = kit.create(world)
    found = sessions.start_session(
        tenant_id=world.context.tenant_id, context_id=world.context.pk, version="2025-11-25", client_info={},
        capabilities={},
    )  # fmt: skip
    session = Session.objects.get(public_id=found)
    ear.heard()
    for closed, told in ((True, []), (False, [payload("r", world, task)])):
        sessions.leave_stream(sessions.open_stream(session.pk, "result", task_id=task.id), closed=closed)
        assert ear.heard() == told


def test_what_is_rolled_back_is_not_announced(world: World, ear: Ear) -> None:
    with transaction.atomic():
        kit.create(world)
        transaction.set_rollback(True)
    assert ear.heard() == []


def test_a_transaction_of_many_changes_announces_after_its_commit(world: World, ear: Ear) -> None:
    with transaction.atomic():
        task = kit.create(world)
        kit.finish(kit.claim_one())
        assert ear.heard() == []
    assert set(ear.heard()) == {payload("r", world, task), payload("t", world, task)}


def test_the_sweeps_changes_are_announced(world: World, ear: Ear) -> None:
    task = kit.create(world)
    kit.claim_one()
    kit.turn_back(task.id, "lease_until", 1)
    ear.heard()
    sweep()
    assert ear.heard() == [payload("t", world, task)]


def test_a_change_by_hand_is_announced_once_per_transaction(world: World, ear: Ear) -> None:
    task = kit.create(world)
    ear.heard()
    with sql.connect() as raw:
        raw.execute("UPDATE task SET message = 'a' WHERE id = %s", (task.id,))
        raw.execute("UPDATE task SET message = 'b' WHERE id = %s", (task.id,))
        assert ear.heard() == []
    assert ear.heard() == [payload("r", world, task)]


def test_renewing_and_polling_announce_nothing(world: World, ear: Ear) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    ear.heard()
    run.renew_leases(worker="worker-1", held=[(task.id, taken.epoch)], lease_seconds=60)
    with sql.connect() as raw:
        raw.execute("UPDATE task SET last_polled_at = clock_timestamp() WHERE id = %s", (task.id,))
    assert ear.heard() == []


def test_many_hints_together_fit_into_a_notification() -> None:
    """Postgres refuses 8,000 bytes, and with it the whole transaction."""
    longest = " ".join(["r", *[str(2**63 - 1)] * 3, "x" * 64])
    assert len(longest) < 200
    assert len(";".join([longest] * hints.BATCH)) < 8_000


def test_a_hint_carries_ids_only_and_is_short(world: World, ear: Ear) -> None:
    task = kit.create(world, arguments={"text": "a secret of the caller"})
    kit.finish(kit.claim_one(), {"content": [{"type": "text", "text": "a secret of the tool"}]})
    heard = ear.heard()
    assert heard
    for text in heard:
        assert len(text.encode()) < 200
        assert "secret" not in text
        kind, *ids = text.split(" ")
        assert kind in ("r", "t", "x")
        assert ids[:3] == [str(world.context.tenant_id), str(world.context.pk), str(task.id)]
