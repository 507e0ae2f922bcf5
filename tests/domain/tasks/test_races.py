"""Two or more connections at the same moment, many rounds each.

Which side wins a free round is luck, and on a busy machine one side may win all of them: that a class
of outcomes was not seen there proves nothing and fails nothing. What must never happen is checked in
every round. Every class is then brought about for certain at the end of the file, where the two stand
in line at the task's row in an order that is laid down.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from taskhub.core.errors import KeyReused
from taskhub.core.records import Actor, Created, TaskRecord
from taskhub.core.states import Door, State
from taskhub.domain.questions.answer import AnswerOutcome, answer_question
from taskhub.domain.tasks import run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import create_task, create_tasks
from taskhub.domain.tasks.run import Claimed, settle_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Attempt, Decision, Task
from tests.domain import kit
from tests.domain.kit import Crew, World
from tests.factories import WORKER, make_question
from tests.store import raw as sql

pytestmark = pytest.mark.long

ROUNDS = 100
STUCK = (
    "SELECT count(*) FROM task t WHERE (state = 'input_required')"
    " <> EXISTS (SELECT 1 FROM question q WHERE q.task_id = t.id AND q.state = 'open')"
)


@pytest.fixture
def crew(request: pytest.FixtureRequest, world: World) -> Iterator[Crew]:
    made = Crew(request.param)
    yield made
    made.close()


def crew_of(size: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("crew", [size], indirect=True, ids=[f"{size}-connections"])


def named(name: str) -> Actor:
    return Actor(name=name, door=Door.CLIENT)


def accept(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


def asking(world: World, *keys: str) -> TaskRecord:
    """A task parked on these questions."""
    task = kit.create(world)
    kit.ask(kit.claim_one(), *(make_question(key=key) for key in keys))
    return kit.look(task.id)


def answer(task: TaskRecord, key: str, name: str) -> AnswerOutcome:
    (question,) = [q for q in task.questions if q.key == key]
    return answer_question(task.id, question, accept(name), actor=named(name))


def end(task_id: int) -> None:
    """Out of the next round's way."""
    request_cancel(task_id, actor=named("round"))


@crew_of(2)
def test_of_two_answers_to_one_question_exactly_one_is_stored(world: World, crew: Crew) -> None:
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        task = asking(world, "q")
        outcomes = crew.race(partial(answer, task, "q", "ada"), partial(answer, task, "q", "bob"))
        assert sorted(outcomes) == [AnswerOutcome.ANSWERED, AnswerOutcome.LATE]
        winner = ["ada", "bob"][outcomes.index(AnswerOutcome.ANSWERED)]
        decision = Decision.objects.get(question__task_id=task.id)
        assert decision.actor == winner
        response = kit.count_rows("SELECT count(*) FROM question WHERE task_id = %s AND response = %s",
                                  (task.id, json.dumps(accept(winner), separators=(",", ":"))))  # fmt: skip
        assert response == 1
        assert kit.look(task.id).state is State.QUEUED
        seen[winner] += 1
        end(task.id)
    assert seen.total() == ROUNDS


@crew_of(2)
def test_two_answers_to_two_questions_never_leave_the_task_stuck(world: World, crew: Crew) -> None:
    """Without the lock on the task 208 of 300 were stuck. Here not one may be."""
    for _ in range(ROUNDS):
        task = asking(world, "a", "b")
        outcomes = crew.race(partial(answer, task, "a", "ada"), partial(answer, task, "b", "bob"))
        assert outcomes == [AnswerOutcome.ANSWERED, AnswerOutcome.ANSWERED]
        assert (kit.look(task.id).state, kit.look(task.id).questions) == (State.QUEUED, ())
        end(task.id)
    assert kit.count_rows(STUCK) == 0


@crew_of(2)
def test_an_answer_and_a_cancellation_end_in_one_of_two_histories(world: World, crew: Crew) -> None:
    seen: Counter[Any] = Counter()
    for _ in range(ROUNDS):
        task = asking(world, "q")
        answered, cancelled = crew.race(
            partial(answer, task, "q", "ada"), partial(request_cancel, task.id, actor=named("bob"))
        )
        assert answered in (AnswerOutcome.ANSWERED, AnswerOutcome.LATE)
        # Nobody holds it either way, so the cancellation takes effect at once, before or after.
        assert cancelled is State.CANCELLED
        now = kit.look(task.id)
        assert (now.state, now.questions) == (State.CANCELLED, ())
        assert Decision.objects.filter(question__task_id=task.id).count() == (answered is AnswerOutcome.ANSWERED)
        told = [action for action in kit.actions(task.id) if action.startswith("task.")][3:]
        assert told == (["task.answered"] if answered is AnswerOutcome.ANSWERED else []) + ["task.cancelled"]
        seen[answered] += 1
    assert seen.total() == ROUNDS


@crew_of(2)
def test_a_cancellation_and_a_result_never_mix(world: World, crew: Crew) -> None:
    seen: Counter[Any] = Counter()
    for _ in range(ROUNDS):
        task = kit.create(world)
        taken = kit.claim_one()
        state, finished = crew.race(partial(request_cancel, task.id, actor=named("bob")), partial(kit.finish, taken))
        # The worker holds the lease all the time: its result is in time, asked to stop or not.
        assert finished is True
        assert state in (State.WORKING, State.FINISHED)
        now = kit.look(task.id)
        assert now.state is State.FINISHED
        assert json.loads(now.result_json or "") == kit.FINAL
        assert (now.cancel_requested_at is not None) == (state is State.WORKING)
        seen[state] += 1
    assert seen.total() == ROUNDS


@crew_of(2)
def test_a_settled_cancellation_and_a_result_end_once(world: World, crew: Crew) -> None:
    seen: Counter[Any] = Counter()
    for _ in range(ROUNDS):
        task = kit.create(world)
        taken = kit.claim_one()
        request_cancel(task.id, actor=named("bob"))
        settled, finished = crew.race(
            partial(settle_cancel, taken, message="", actor=named("w")), partial(kit.finish, taken)
        )
        assert sorted([settled, finished]) == [False, True]
        assert kit.look(task.id).state is (State.CANCELLED if settled else State.FINISHED)
        assert len([a for a in kit.actions(task.id) if a in ("task.cancelled", "task.finished")]) == 1
        seen["cancelled" if settled else "finished"] += 1
    assert seen.total() == ROUNDS


@crew_of(4)
def test_four_claimers_never_share_a_task_and_never_miss_one(world: World, crew: Crew) -> None:
    for _ in range(ROUNDS):
        task = kit.create(world)
        claims = crew.race(*(partial(kit.claim, f"w{n}", 1) for n in range(4)))
        (taken,) = [found for each in claims for found in each]
        assert (taken.task_id, taken.epoch) == (task.id, 1)
        assert Attempt.objects.filter(task_id=task.id).count() == 1
        kit.finish(taken)


@crew_of(4)
def test_four_claimers_of_many_tasks_take_each_once(world: World, crew: Crew) -> None:
    """Every task is taken in the end; which claimer takes how many is luck."""
    for _ in range(ROUNDS // 5):
        ids = {kit.create(world).id for _ in range(6)}
        claims = [found for each in crew.race(*(partial(kit.claim, f"w{n}", 2) for n in range(4))) for found in each]
        taken = [found.task_id for found in claims]
        assert len(taken) == len(set(taken))
        # A claimer skips what a neighbour has locked, so a few may be left for the next look.
        left = kit.claim("late", 6)
        taken += [found.task_id for found in left]
        assert sorted(taken) == sorted(ids)
        for found in [*claims, *left]:
            assert kit.finish(found) is True


@crew_of(2)
def test_a_zombie_never_overwrites_whoever_claimed_after_it(transactional_db: None, crew: Crew) -> None:
    """The fence: the old epoch is refused in every round, whether it comes first or last."""
    world = kit.make_world(idempotent=True, max_attempts=20)
    for _ in range(ROUNDS):
        task = kit.create(world)
        zombie = kit.claim_one("w1")
        kit.turn_back(task.id, "lease_until", 1)
        sweep()
        again = kit.claim_one("w2")
        late = {"content": [{"type": "text", "text": "from the dead"}]}
        dead, alive = crew.race(partial(kit.finish, zombie, late), partial(kit.finish, again))
        assert (dead, alive) == (False, True)
        assert json.loads(kit.look(task.id).result_json or "") == kit.FINAL
        assert sorted(kit.actions(task.id)[-2:]) == ["task.finished", "task.write.stale"]


@crew_of(2)
def test_a_result_and_the_sweep_of_its_lost_lease_end_in_one_of_two_histories(
    transactional_db: None, crew: Crew
) -> None:
    world = kit.make_world(idempotent=True, max_attempts=20)
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        task = kit.create(world)
        taken = kit.claim_one()
        kit.turn_back(task.id, "lease_until", 1)
        finished, swept = crew.race(partial(kit.finish, taken), sweep)
        # The sweep skips a row that is locked, so it may come away empty-handed; never both win.
        assert (finished, swept) in ((True, 0), (False, 1))
        assert kit.look(task.id).state is (State.FINISHED if finished else State.QUEUED)
        seen["finished" if finished else "swept"] += 1
        end(task.id)
    assert seen.total() == ROUNDS


@crew_of(2)
def test_two_sweeps_count_a_lost_lease_once(transactional_db: None, crew: Crew) -> None:
    world = kit.make_world(idempotent=True, max_attempts=20)
    for _ in range(ROUNDS // 2):
        task = kit.create(world)
        kit.claim_one()
        kit.turn_back(task.id, "lease_until", 1)
        assert sum(crew.race(sweep, sweep)) == 1
        assert kit.column(task.id, "crashes") == 1
        end(task.id)


@crew_of(8)
def test_eight_creations_with_one_key_make_one_task(world: World, crew: Crew) -> None:
    for number in range(ROUNDS // 2):
        made = crew.race(
            *(partial(create_task, kit.new_task(world, idempotency_key=f"k{number}"), named(f"c{n}")) for n in range(8))
        )
        assert len({created.task.id for created in made}) == 1
        assert sorted(created.existed for created in made) == [False] + [True] * 7
        end(made[0].task.id)
    assert Task.objects.count() == ROUNDS // 2


@crew_of(2)
def test_batches_with_the_same_keys_in_another_order_do_not_wait_for_each_other_for_ever(
    world: World, crew: Crew
) -> None:
    for number in range(ROUNDS):
        batch = [(kit.new_task(world, idempotency_key=f"{key}{number}"), named("c")) for key in "abcd"]
        for made in crew.race(partial(create_tasks, batch), partial(create_tasks, batch[::-1])):
            assert [type(outcome) for outcome in made] == [Created] * 4
        tasks = Task.objects.filter(idempotency_key__in=[new.idempotency_key for new, _ in batch])
        assert tasks.count() == 4
        for task in tasks:
            end(task.pk)


@crew_of(8)
def test_eight_creations_with_one_key_and_other_arguments_make_one_task(world: World, crew: Crew) -> None:
    for number in range(ROUNDS // 5):
        made = crew.race(
            *(
                partial(create_task, kit.new_task(world, idempotency_key=f"k{number}", arguments={"n": n}), named("c"))
                for n in range(8)
            )
        )
        assert len([one for one in made if isinstance(one, KeyReused)]) == 7
        assert Task.objects.filter(idempotency_key=f"k{number}").count() == 1
        end(Task.objects.get(idempotency_key=f"k{number}").pk)


# --- the same pairs with their order laid down, so that every class of outcomes is certainly seen


def in_order(crew: Crew, task_id: int, first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """Both stand in line at the task's row, `first` in front, before either may go on."""

    def waiting(count: int) -> bool:
        return count == kit.count_rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )

    def behind() -> Any:
        kit.wait_until(lambda: waiting(1))
        return second()

    def open_up() -> None:
        kit.wait_until(lambda: waiting(2))
        holder.commit()

    with sql.connect() as holder:
        holder.execute("SELECT 1 FROM task WHERE id = %s FOR UPDATE", (task_id,))
        return crew.race(first, behind, open_up)[:2]


@crew_of(3)
@pytest.mark.parametrize("winner", ["ada", "bob"])
def test_the_first_answer_in_line_wins(world: World, crew: Crew, winner: str) -> None:
    loser = {"ada": "bob", "bob": "ada"}[winner]
    task = asking(world, "q")
    outcomes = in_order(crew, task.id, partial(answer, task, "q", winner), partial(answer, task, "q", loser))
    assert outcomes == [AnswerOutcome.ANSWERED, AnswerOutcome.LATE]
    assert Decision.objects.get().actor == winner


@crew_of(3)
@pytest.mark.parametrize("keys", [("a", "b"), ("b", "a")])
def test_answers_in_line_to_two_questions_both_count(world: World, crew: Crew, keys: tuple[str, str]) -> None:
    task = asking(world, "a", "b")
    outcomes = in_order(crew, task.id, partial(answer, task, keys[0], "ada"), partial(answer, task, keys[1], "bob"))
    assert outcomes == [AnswerOutcome.ANSWERED, AnswerOutcome.ANSWERED]
    assert kit.look(task.id).state is State.QUEUED


@crew_of(3)
def test_a_cancellation_before_an_answer_makes_it_late(world: World, crew: Crew) -> None:
    task = asking(world, "q")
    cancel = partial(request_cancel, task.id, actor=named("bob"))
    assert in_order(crew, task.id, cancel, partial(answer, task, "q", "ada")) == [State.CANCELLED, AnswerOutcome.LATE]


@crew_of(3)
def test_an_answer_before_a_cancellation_counts_and_the_task_ends(world: World, crew: Crew) -> None:
    task = asking(world, "q")
    cancel = partial(request_cancel, task.id, actor=named("bob"))
    assert in_order(crew, task.id, partial(answer, task, "q", "ada"), cancel) == [
        AnswerOutcome.ANSWERED,
        State.CANCELLED,
    ]


@crew_of(3)
def test_a_cancellation_before_a_result_is_recorded_and_the_result_stands(world: World, crew: Crew) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    cancel = partial(request_cancel, task.id, actor=named("bob"))
    assert in_order(crew, task.id, cancel, partial(kit.finish, taken)) == [State.WORKING, True]
    assert kit.look(task.id).state is State.FINISHED


@crew_of(3)
def test_a_result_before_a_cancellation_leaves_no_request(world: World, crew: Crew) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    cancel = partial(request_cancel, task.id, actor=named("bob"))
    assert in_order(crew, task.id, partial(kit.finish, taken), cancel) == [True, State.FINISHED]
    assert kit.look(task.id).cancel_requested_at is None


@crew_of(3)
@pytest.mark.parametrize("first", ["settle", "finish"])
def test_whoever_of_stop_and_result_is_first_in_line_ends_the_task(world: World, crew: Crew, first: str) -> None:
    task = kit.create(world)
    taken = kit.claim_one()
    request_cancel(task.id, actor=named("bob"))
    settle = partial(settle_cancel, taken, message="", actor=named("w"))
    finish = partial(kit.finish, taken)
    pair = (settle, finish) if first == "settle" else (finish, settle)
    assert in_order(crew, task.id, *pair) == [True, False]
    assert kit.look(task.id).state is (State.CANCELLED if first == "settle" else State.FINISHED)


# --- claims and locks that others hold


def claim_now() -> Claimed:
    return run.claim_tasks(worker="w", limit=4, lease_seconds=30, per_context=1, actor=WORKER)


def test_a_task_that_somebody_only_refers_to_is_claimed(world: World) -> None:
    """A stream that is opened on it in the moment it is made locks it so, for its foreign key."""
    task = kit.create(world)
    with sql.connect() as other:
        other.execute("SELECT 1 FROM task WHERE id = %s FOR KEY SHARE", [task.id])
        assert [claim.task_id for claim in claim_now().tasks] == [task.id]


def test_a_claim_says_that_it_passed_over_a_task_somebody_else_is_changing(world: World) -> None:
    task = kit.create(world)
    with sql.connect() as other:
        other.execute("SELECT 1 FROM task WHERE id = %s FOR NO KEY UPDATE", [task.id])
        found = claim_now()
        assert (found.tasks, found.skipped) == ([], True)
        younger = kit.create(kit.another_client(world))
        found = claim_now()
        assert ([claim.task_id for claim in found.tasks], found.skipped) == ([younger.id], True)
        assert found.since is None, "the next claim looks at the older one too"
    found = claim_now()
    assert ([claim.task_id for claim in found.tasks], found.skipped) == ([task.id], False)
    kit.create(world)
    found = claim_now()
    assert (found.tasks, found.more, found.skipped) == ([], True, False), "it waits for its client's other task"
