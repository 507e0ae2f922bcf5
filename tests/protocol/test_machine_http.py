"""Many steps in any order against the real hub, each compared with a model of a few lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tests.support.client import EVERYTHING, TASKS, TERMINAL, Answer, Client, accept
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes

UNKNOWN = "A" * 32
QUESTIONS: dict[str, dict[str, Any]] = {
    "confirm_delete": {"confirm": accept(confirm=True)},
    "multi_input": {"first": accept(name="one"), "second": accept(name="two", confirm=False)},
    "slow_compute": {},
}
ARGUMENTS = {"confirm_delete": {"filename": "f"}, "multi_input": {}, "slow_compute": {"seconds": 60}}
OUTCOME = {"confirm_delete": "Deleted f", "multi_input": "First one, then two"}
WRONG: list[Any] = [
    7,
    None,
    [],
    {},
    {"action": "perhaps"},
    {"action": "accept", "content": {"name": 7, "confirm": "no"}},
]


@dataclass
class Model:
    """What is known of one task."""

    task_id: str
    tool: str
    status: str
    open: set[str] = field(default_factory=set)
    final: dict[str, Any] | None = None


def _anonymous(answer: Answer) -> str:
    return json.dumps([answer.status, {key: value for key, value in answer.messages[-1].items() if key != "id"}])


class Machine(RuleBasedStateMachine):
    """Alice's tasks. Bob may try what he likes."""

    tasks = Bundle("tasks")

    def __init__(self, hub: RunningHub) -> None:
        super().__init__()
        self.alice = Client(hub.base, hub.tokens["agent-a"])
        self.bob = Client(hub.base, hub.tokens["agent-b"])
        self.models: list[Model] = []

    def teardown(self) -> None:
        for model in self.models:
            self.alice.cancel(model.task_id)
        for model in self.models:
            self.alice.until(model.task_id, *TERMINAL)
        self.alice.close()
        self.bob.close()

    @rule(target=tasks, tool=st.sampled_from(sorted(QUESTIONS)))
    def create(self, tool: str) -> Model:
        model = Model(self.alice.create(tool, ARGUMENTS[tool], caps=EVERYTHING), tool, "working", set(QUESTIONS[tool]))
        if model.open:
            model.status = "input_required"
            self.alice.until(model.task_id, "input_required")
        self.models.append(model)
        return model

    @rule(model=tasks, data=st.data())
    def answer(self, model: Model, data: st.DataObject) -> None:
        """Any known key: an open one is answered, an answered one is ignored."""
        keys = sorted(QUESTIONS[model.tool])
        chosen = set(data.draw(st.lists(st.sampled_from(keys), unique=True))) if keys else set()
        responses = {key: QUESTIONS[model.tool][key] for key in chosen}
        assert self.alice.update(model.task_id, responses).status == 200
        if model.status != "input_required":
            return
        model.open -= chosen
        if not model.open:
            model.status = "completed"
            found = self.alice.until(model.task_id, *TERMINAL)
            assert found["result"]["content"][0]["text"] == OUTCOME[model.tool]

    @rule(model=tasks, key=st.text(max_size=20), response=st.sampled_from(WRONG))
    def answer_what_nobody_asked(self, model: Model, key: str, response: Any) -> None:
        if key not in QUESTIONS[model.tool]:
            assert self.alice.update(model.task_id, {key: response}).status == 200

    @rule(model=tasks, response=st.sampled_from(WRONG))
    def answer_wrongly(self, model: Model, response: Any) -> None:
        """Refused as a whole while the question is open, ignored afterwards."""
        responses = {**QUESTIONS[model.tool], **dict.fromkeys(sorted(QUESTIONS[model.tool])[-1:], response)}
        if not responses:
            return
        last = sorted(responses)[-1]
        if model.status == "input_required" and last not in model.open:
            responses = {last: response}
        body = self.alice.update(model.task_id, responses).messages[-1]
        refused = model.status == "input_required" and last in model.open
        assert ("error" in body) == refused, body

    @rule(model=tasks)
    def cancel(self, model: Model) -> None:
        self.alice.cancel(model.task_id)
        if model.status not in TERMINAL:
            model.status, model.open = "cancelled", set()
            self.alice.until(model.task_id, *TERMINAL)

    @rule(model=tasks)
    def listen(self, model: Model) -> None:
        """A subscription starts with the task as it stands."""
        params = {"notifications": {"taskIds": [model.task_id]}}
        with self.alice.stream("subscriptions/listen", params, caps=TASKS) as stream:
            assert stream.next()["params"]["notifications"] == {"taskIds": [model.task_id]}
            shown = stream.next()["params"]
        assert (shown["status"], set(shown.get("inputRequests", {}))) == (model.status, model.open)

    @rule(model=tasks, method=st.sampled_from(["tasks/get", "tasks/update", "tasks/cancel"]))
    def meddle(self, model: Model, method: str) -> None:
        """To a stranger the task does not exist, and nothing comes of it."""
        more: dict[str, Any] = {"inputResponses": QUESTIONS[model.tool]} if method == "tasks/update" else {}
        foreign = self.bob.call(method, {"taskId": model.task_id, **more}, caps=TASKS)
        unknown = self.bob.call(method, {"taskId": UNKNOWN, **more}, caps=TASKS)
        assert _anonymous(foreign) == _anonymous(unknown)

    @rule(model=consumes(tasks))
    def leave_alone(self, model: Model) -> None:
        """No more steps on this one; the invariant goes on looking at it."""

    @invariant()
    def the_wire_shows_the_model(self) -> None:
        for model in self.models:
            found = self.alice.get(model.task_id).result
            assert (found["status"], set(found.get("inputRequests", {}))) == (model.status, model.open)
            if model.status in TERMINAL:
                assert model.final in (None, found), "an ended task never changes"
                model.final = found


@pytest.mark.req("T26-20", "T26-21", "T26-22", "T26-24", "T26-33", "T26-34", "T26-35", "T26-36", "T26-39", "T26-52")
def test_any_order_of_steps_agrees_with_the_model(hub: RunningHub) -> None:
    run_state_machine_as_test(
        lambda: Machine(hub),
        settings=settings(
            max_examples=15,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
