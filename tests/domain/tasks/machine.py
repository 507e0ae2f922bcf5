"""Random histories of a few tasks, checked step by step against a small model in Python.

Every call of the lifecycle is made, also those that come too late or from the wrong hands; and
statements by hand that the guards must refuse. A database error that the model does not expect is a
violation like any other. All of a history happens in one transaction that is rolled back; what a
commit would check is checked after each step.

`steps` of a machine is its history so far, which `replay` takes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeAlias

import psycopg
from django.db import DatabaseError, connection, transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition
from hypothesis.stateful import rule as hypothesis_rule

from taskhub.core.errors import Invalid, KeyReused, TaskHubError
from taskhub.core.records import Actor, Claim, LogLine, OpenQuestion, Poll, TaskRecord
from taskhub.core.states import TERMINAL, Audience, Door, QuestionKind, State
from taskhub.domain.questions.answer import AnswerOutcome, answer_question, refuse_question, rule_outcome
from taskhub.domain.tasks import deferred, run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import create_task, forget_counts
from taskhub.domain.tasks.reads import owned_tasks
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import AuthContext
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import WORKER, make_question

MOST_LIVE = 4
ACTOR = Actor(name="machine", door=Door.SQL)
FORM = make_question().params

BY_HAND = {
    True: [("TH002", "message = message || '!'"), ("TH002", "is_error = NOT is_error"), ("TH002", "state = 'working'")],
    False: [
        ("TH001", "context_id = context_id + 1"),
        ("TH004", "lease_epoch = lease_epoch + 2"),
        ("TH003", "state = 'paused'"),
    ],
}
"""For tasks that have ended and for live ones: what the guards answer to a statement."""

WRITES: dict[str, Callable[[Claim], bool]] = {
    "finish": kit.finish,
    "fault": kit.fault,
    "release": lambda claim: run.release(claim, started=False, delay_seconds=0.0, reason="", actor=WORKER),
    "release started": lambda claim: run.release(claim, started=True, delay_seconds=0.0, reason="", actor=WORKER),
    "settle cancel": lambda claim: run.settle_cancel(claim, message="", actor=WORKER),
    "note": lambda claim: run.note(claim, [LogLine("progress", "on", 1.0, 9.0)]),
}
ENDS = {"finish": State.FINISHED, "fault": State.FAULTED, "settle cancel": State.CANCELLED}

POLLS: dict[str, Callable[[Poll, str], bool]] = {
    "finish": lambda poll, key: kit.finish(poll.claim),
    "fail": lambda poll, key: deferred.fault_deferred(
        poll, {"code": -32603, "message": "boom"}, status="failed", kind="", actor=WORKER
    ),
    "cancel": lambda poll, key: deferred.cancel_deferred(poll, status="cancelled", message="", actor=WORKER),
    "lose": lambda poll, key: deferred.lose_deferred(poll, told="Lost", actor=WORKER),
    "ask": lambda poll, key: deferred.ask_deferred(
        poll, [make_question(key=key)], message="", delay_ms=0, actor=WORKER
    ),
    "ask no more": lambda poll, key: deferred.ask_deferred(poll, None, message="", delay_ms=0, actor=WORKER),
    "put back": lambda poll, key: bool(
        deferred.put_back_polls([deferred.PutBack(poll, 60_000, "Halfway")], actor=WORKER)
    ),
}
"""What a worker may store of a poll."""

pick = st.integers(0, 1_000)

Step: TypeAlias = tuple[str, dict[str, Any]]
"""A rule's name and what it was given."""


def rule(**strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Hypothesis' own, that also writes the step down, unless it is part of another."""

    def decorate(step: Callable[..., None]) -> Callable[..., None]:
        @wraps(step)
        def told(self: TaskMachine, *args: Any, **given: Any) -> None:
            outermost, self.within = not self.within, True
            if outermost:
                self.steps.append((step.__name__, given))
            try:
                step(self, *args, **given)
            finally:
                self.within = not outermost

        # A decorator without types of its own, when it is called like this.
        found: Callable[..., None] = hypothesis_rule(**strategies)(told)  # type: ignore[no-untyped-call]
        return found

    return decorate


@dataclass
class Model:
    """What a task should be."""

    public_id: str
    owner: int
    tool: int
    argument: int
    state: State = State.QUEUED
    epoch: int = 0
    held: bool = False
    deferred: bool = False  # held by no worker: its server runs the call
    cancel: bool = False
    crashes: int = 0
    questions: dict[str, bool] = field(default_factory=dict)  # key: is it open
    seen: TaskRecord | None = None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def open(self) -> list[str]:
        return [key for key, is_open in self.questions.items() if is_open]

    @property
    def unruled(self) -> bool:
        """Whether people are asked if its last run, which was lost, ran."""
        return any(key.startswith("outcome-") for key in self.open)

    def lose(self) -> None:
        """Nobody holds it any more, and nobody knows whether it ran."""
        self.let_go(State.INPUT_REQUIRED)
        self.questions[f"outcome-{self.epoch}"] = True

    def close_questions(self) -> None:
        self.questions = dict.fromkeys(self.questions, False)

    def let_go(self, state: State) -> None:
        """No lease and no open question any more."""
        self.state, self.held, self.deferred = state, False, False
        self.close_questions()


class TaskMachine(RuleBasedStateMachine):
    """Two clients, two tools (the first may run twice), a handful of tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.history = transaction.atomic()
        self.history.__enter__()
        self.tasks: dict[int, Model] = {}
        self.keys: dict[tuple[int, str], int] = {}
        self.claims: list[Claim] = []
        self.polls: list[Poll] = []
        self.contexts: list[AuthContext] = []
        self.steps: list[Step] = []
        self.within = True  # until the first people and tasks are there
        forget_counts()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.history.__exit__(None, None, None)

    @initialize()
    def people_and_tools(self) -> None:
        tenant = factories.make_tenant()
        server = factories.make_server(tenant)
        self.contexts = [factories.make_context(tenant) for _ in range(2)]
        self.tools = [
            factories.make_tool(server, idempotent=True, max_attempts=2),
            factories.make_tool(server),
        ]
        self.create(owner=0, tool=0, argument=0, key="k")
        self.create(owner=1, tool=1, argument=0, key=None)
        self.within = False

    # --- help

    def do(self, call: Callable[[], Any]) -> Any:
        """One call, in a transaction of its own as far as errors go, with the checks of a commit."""
        with transaction.atomic():
            outcome = call()
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
                cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        return outcome

    def some(self, n: int, suits: Callable[[Model], bool] = lambda model: True) -> tuple[int, Model]:
        """A task, a live one if there is any, three times in four."""
        fitting = [(task_id, model) for task_id, model in self.tasks.items() if suits(model)]
        if n % 4 and any(not model.ended for _, model in fitting):
            fitting = [(task_id, model) for task_id, model in fitting if not model.ended]
        n //= 4
        return fitting[n % len(fitting)]

    def some_claim(self, n: int) -> Claim:
        """A claim. Half of them still hold; of the others as many as
        possible are zombies, whose task somebody else holds by now."""
        holding = [claim for claim in self.claims if self.holds(claim)]
        zombies = [c for c in self.claims if self.tasks[c.task_id].held and not self.holds(c)]
        stale = [claim for claim in self.claims if not self.holds(claim)]
        fitting = [zombies or stale, stale, holding, holding][n % 4] or self.claims
        return fitting[-1 - n // 4 % len(fitting)]

    def _holder(self, task_id: int) -> Claim:
        (claim,) = [claim for claim in self.claims if claim.task_id == task_id and self.holds(claim)]
        return claim

    def holds(self, claim: Claim) -> bool:
        model = self.tasks[claim.task_id]
        return model.held and model.epoch == claim.epoch

    def counts(self, claim: Claim, how: str) -> bool:
        """Whether a write under this claim does: also the late outcome of a lost run that nobody has ruled on."""
        model = self.tasks[claim.task_id]
        late = how in ("finish", "fault") and model.unruled and model.epoch == claim.epoch
        return self.holds(claim) or late

    def any_task(self, suits: Callable[[Model], bool] = lambda model: True) -> bool:
        return any(suits(model) for model in self.tasks.values())

    # --- what clients do

    @rule(
        owner=st.integers(0, 1),
        tool=st.integers(0, 1),
        argument=st.integers(0, 1),
        key=st.sampled_from([None, "k", "k", "l"]),
    )
    def create(self, owner: int, tool: int, argument: int, key: str | None) -> None:
        live = sum(not model.ended for model in self.tasks.values())
        if live >= MOST_LIVE and (owner, key) not in self.keys:
            return
        new = kit.new_task(
            World(self.contexts[owner], self.tools[tool]), arguments={"n": argument}, idempotency_key=key
        )
        known = None if key is None else self.keys.get((owner, key))
        if known is not None and (self.tasks[known].tool, self.tasks[known].argument) != (tool, argument):
            try:
                self.do(lambda: create_task(new, ACTOR))
            except KeyReused:
                return
            raise AssertionError("a key was taken for another call")
        made = self.do(lambda: create_task(new, ACTOR))
        assert made.existed == (known is not None)
        if known is not None:
            assert made.task.id == known
            return
        assert made.task.id not in self.tasks
        self.tasks[made.task.id] = Model(made.task.public_id, owner, tool, argument)
        if key is not None:
            self.keys[owner, key] = made.task.id

    @precondition(lambda self: self.tasks)
    @rule(n=pick, limit=st.integers(0, 2), then=st.sampled_from([None, *WRITES]))
    def cancel_or_claim(self, n: int, limit: int, then: str | None) -> None:
        """Mostly a claim: with every second step a cancellation, no task would live to be run. Of those
        that run, most report soon after they were asked to stop."""
        if limit:
            self.claim(limit)
            return
        held = n % 2 and self.any_task(lambda model: model.held)
        task_id, model = self.some(n // 2, lambda model: model.held or not held)
        state = self.do(lambda: request_cancel(task_id, actor=ACTOR))
        if not model.ended and not model.cancel:
            model.cancel = True
            if not model.held:
                model.let_go(State.CANCELLED)
        assert state is model.state
        if model.held and not model.deferred and then is not None:
            self._write(self._holder(task_id), then)

    @precondition(lambda self: self.any_task(lambda model: bool(model.questions)))
    @rule(n=pick, which=pick, response=st.sampled_from(["accept", "decline", "broken", "error"]), stale=st.booleans())
    def answer(self, n: int, which: int, response: str, stale: bool) -> None:
        task_id, model = self.some(n, lambda model: bool(model.questions))
        keys = list(model.questions) if stale else model.open or list(model.questions)
        key = keys[which % len(keys)]
        if key.startswith("outcome-"):
            self._rule(task_id, model, key, ran=response == "accept")
            return
        question = OpenQuestion(key, QuestionKind.ELICITATION, FORM, Audience.OPERATOR, "", 1, 0)
        if response == "error":
            self._refuse(task_id, model, question)
            return
        body: dict[str, Any] = {"action": response}
        if response != "decline":
            body = {"action": "accept", "content": {"name": 7 if response == "broken" else "Ada"}}
        try:
            outcome = self.do(lambda: answer_question(task_id, question, body, actor=ACTOR))
        except Invalid:
            assert response == "broken"
            return
        assert response != "broken"
        if not model.questions[key]:
            assert outcome is AnswerOutcome.LATE
            return
        assert outcome is AnswerOutcome.ANSWERED
        model.questions[key] = False
        if not model.open:
            model.state = State.WORKING if model.held else State.QUEUED

    def _refuse(self, task_id: int, model: Model, question: OpenQuestion) -> None:
        error = {"code": -1, "message": "no"}
        outcome = self.do(lambda: refuse_question(task_id, question, error, actor=ACTOR))
        assert outcome is (AnswerOutcome.ANSWERED if model.questions[question.key] else AnswerOutcome.LATE)
        if outcome is AnswerOutcome.LATE:
            return
        if not model.held or model.deferred:
            model.let_go(State.FAULTED)
            return
        model.questions[question.key] = False
        if not model.open:
            model.state = State.WORKING

    def _rule(self, task_id: int, model: Model, key: str, *, ran: bool) -> None:
        question = OpenQuestion(key, QuestionKind.OUTCOME, {}, Audience.OPERATOR, "", 1, 0)
        result = kit.FINAL if ran else None
        outcome = self.do(lambda: rule_outcome(task_id, question, ran=ran, result=result, actor=ACTOR))
        if not model.questions[key]:
            assert outcome is AnswerOutcome.LATE
            return
        assert outcome is AnswerOutcome.ANSWERED
        model.let_go(State.FINISHED if ran else State.QUEUED)

    # --- what workers do

    @rule(count=st.integers(1, 2), live=st.booleans())
    def claim_and_ask(self, count: int, live: bool) -> None:
        self.claim(2)
        if self.claims:
            self._ask(self.claims[-1], count, live)

    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        waiting = {task_id for task_id, model in self.tasks.items() if model.state is State.QUEUED and not model.cancel}
        taken = self.do(lambda: kit.claim(limit=limit))
        assert len(taken) == min(limit, len(waiting))
        for claim in taken:
            assert claim.task_id in waiting
            model = self.tasks[claim.task_id]
            assert claim.arguments == {"n": model.argument}
            model.state, model.held, model.epoch = State.WORKING, True, model.epoch + 1
            assert claim.epoch == model.epoch
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(n=pick, count=st.integers(1, 2), live=st.booleans())
    def ask(self, n: int, count: int, live: bool) -> None:
        self._ask(self.some_claim(n), count, live)

    def _ask(self, claim: Claim, count: int, live: bool) -> None:
        model, holds = self.tasks[claim.task_id], self.holds(claim)
        live = live or (holds and model.deferred)
        keys = [f"q{len(model.questions) + place}" for place in range(count)]
        assert self.do(lambda: kit.ask(claim, *(make_question(key=key) for key in keys), live=live)) is holds
        if not holds:
            return
        if model.cancel and not live:
            model.let_go(State.CANCELLED)
            return
        model.questions.update(dict.fromkeys(keys, True))
        model.state = State.INPUT_REQUIRED
        model.held = live

    @precondition(lambda self: self.claims)
    @rule(n=pick, how=st.sampled_from(["finish", "fault", "release", "release started", "settle cancel", "note"]))
    def write(self, n: int, how: str) -> None:
        """All that a worker may report, in time or not."""
        self._write(self.some_claim(n), how)

    def _write(self, claim: Claim, how: str) -> None:
        model, holds = self.tasks[claim.task_id], self.counts(claim, how)
        if holds and model.deferred and how.startswith("release"):
            return  # no worker has it, so none gives it back
        done = self.do(lambda: WRITES[how](claim))
        assert done is (holds and (model.cancel or how != "settle cancel"))
        if not done or how == "note":
            return
        if how in ENDS:
            model.let_go(ENDS[how])
        elif model.cancel:
            model.let_go(State.CANCELLED)
        elif how == "release started" and model.tool == 1:
            model.lose()
        else:
            model.let_go(State.QUEUED)

    @precondition(lambda self: self.claims)
    @rule(n=pick)
    def defer(self, n: int) -> None:
        """The server runs the call as a task of its own."""
        claim = self.some_claim(n)
        model = self.tasks[claim.task_id]
        if self.holds(claim) and model.deferred:
            return
        may = self.holds(claim) and model.state is State.WORKING
        assert self.do(lambda: kit.defer(claim)) is may
        model.deferred = model.deferred or may

    @precondition(lambda self: self.any_task(lambda model: model.deferred))
    @rule(n=pick, how=st.sampled_from([*POLLS]))
    def poll(self, n: int, how: str) -> None:
        """A worker takes the poll of a deferred call, and stores what the server says."""
        task_id, model = self.some(n, lambda model: model.deferred)
        self.do(lambda: kit.turn_back(task_id, "poll_at", 1, table="deferred"))
        taken = self.do(lambda: deferred.take_polls("poller", {self.tools[0].server_id: 10}))
        (poll,) = [each for each in taken if each.claim.task_id == task_id]
        self.polls += taken
        assert (poll.claim.epoch, poll.cancelling, poll.ended) == (model.epoch, model.cancel, False)
        key = f"q{len(model.questions)}"
        assert self.do(lambda: POLLS[how](poll, key))
        if how == "lose" and not model.cancel:
            self._lose(model)
            if model.state is State.QUEUED:
                self.do(lambda: kit.turn_back(task_id, "runnable_at", 1))  # it waits for a moment before the next run
        elif how in ("finish", "fail", "cancel", "lose"):
            model.cancel = model.cancel or how == "cancel"
            ends = {"finish": State.FINISHED, "fail": State.FAULTED}
            model.let_go(ends.get(how, State.CANCELLED))
        elif how == "ask":
            model.questions[key] = True
            model.state = State.INPUT_REQUIRED
        elif how == "ask no more":
            model.close_questions()
            model.state = State.WORKING

    @precondition(lambda self: self.polls)
    @rule(n=pick, how=st.sampled_from([*POLLS]))
    def poll_late(self, n: int, how: str) -> None:
        """A worker whose poll another has taken, or whose call is over, changes nothing."""
        live = {(poll.claim.task_id, poll.turn) for poll in self.polls if self.tasks[poll.claim.task_id].deferred}
        newest = {task: max(turn for other, turn in live if other == task) for task, _ in live}
        late = [poll for poll in self.polls if newest.get(poll.claim.task_id) != poll.turn and how != "finish"]
        if late:
            poll = late[n % len(late)]
            if self.tasks[poll.claim.task_id].deferred or how != "put back":
                assert not self.do(lambda: POLLS[how](poll, "late"))

    def _lose(self, model: Model) -> None:
        """Its run is lost, and it is not to be cancelled."""
        if model.tool == 1:
            model.lose()
        else:
            model.crashes += 1
            model.let_go(State.QUEUED if model.crashes < 2 else State.FAULTED)

    @precondition(lambda self: self.any_task(lambda model: model.held and not model.deferred))
    @rule(n=pick, late=st.sampled_from([None, *WRITES]))
    def lose_a_worker_and_sweep(self, n: int, late: str | None) -> None:
        """The lost worker may not know, and write once somebody else has its task."""
        task_id, model = self.some(n, lambda model: model.held and not model.deferred)
        zombie = self._holder(task_id)
        self.do(lambda: kit.turn_back(task_id, "lease_until", 1))
        assert self.do(sweep) == 1
        assert self.do(sweep) == 0
        if model.cancel:
            model.let_go(State.CANCELLED)
        else:
            self._lose(model)
        if late is not None:
            self.claim(limit=4)
            self._write(zombie, late)

    # --- what nobody may do

    @precondition(lambda self: self.tasks)
    @rule(n=pick, which=pick)
    def change_a_task_by_hand(self, n: int, which: int) -> None:
        task_id, model = self.some(n)
        code, change = BY_HAND[model.ended][which % 3]
        self._refused(code, f"UPDATE task SET {change} WHERE id = {task_id}")

    def _refused(self, code: str, statement: str) -> None:
        def attempt() -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)

        try:
            self.do(attempt)
        except DatabaseError as error:
            assert getattr(error.__cause__, "sqlstate", "") == code, error  # noqa: PT017 - the code is the point
            return
        raise AssertionError(f"not refused: {statement}")

    # --- what must hold after every step

    def check_all(self) -> None:
        """Every invariant."""
        self.the_tasks_are_as_the_model_says_and_only_their_owners_see_them()
        self.history_is_complete()

    @invariant()
    def the_tasks_are_as_the_model_says_and_only_their_owners_see_them(self) -> None:
        pairs = [
            (self.contexts[owner].pk, model.public_id)
            for model in self.tasks.values()
            for owner in (model.owner, 1 - model.owner)
        ]
        found = owned_tasks(pairs)
        assert found[1::2] == [None] * len(self.tasks), "a client sees another's task"
        for model, now in zip(self.tasks.values(), found[::2], strict=True):
            assert now is not None
            assert now.state is model.state
            assert {question.key for question in now.questions} == set(model.open)
            assert (now.state is State.INPUT_REQUIRED) == bool(model.open)
            assert (now.cancel_requested_at is not None) == model.cancel
            before = model.seen
            if before is not None and now != before:
                assert before.state not in TERMINAL, "an ended task changed"
                assert now.version > before.version, "a change without a new version"
                assert now.updated_at >= before.updated_at
            model.seen = now

    @invariant()
    def history_is_complete(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM task t WHERE t.state IS DISTINCT FROM (SELECT e.after ->> 'state' FROM event e"
                " WHERE e.task_id = t.id AND e.action LIKE 'task.%%' AND e.task_version IS NOT NULL"
                " ORDER BY e.id DESC LIMIT 1)"
            )
            assert cursor.fetchone() == (0,), "the last event tells another state"


def replay(steps: Sequence[Step]) -> None:
    """One history again, with every check after each step. Raises one of `VIOLATIONS`."""
    machine = TaskMachine()
    try:
        machine.people_and_tools()
        machine.check_all()
        for name, given in steps:
            getattr(machine, name)(**given)
            machine.check_all()
    finally:
        machine.teardown()


VIOLATIONS = (AssertionError, DatabaseError, psycopg.Error, TaskHubError)
"""How a machine fails when the store misbehaves."""
