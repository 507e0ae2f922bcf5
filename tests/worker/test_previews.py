"""A worker runs the preview of a call that people are asked about, and once more before the call runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from taskhub.core.records import Actor, TaskRecord, UpstreamTask
from taskhub.core.rules import Client, Otherwise, Rule, Then, Verdict, preview_from_json
from taskhub.core.states import Door, State
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.credentials.records import Way
from taskhub.domain.questions import previews as shown
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome, decide_approval
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import edits, previews
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import (
    AuthContext,
    Decision,
    Event,
    Membership,
    Outbound,
    Preview,
    Question,
    Server,
    ServerGrant,
    Task,
    TaskLog,
    Tenant,
    Tool,
)
from taskhub.upstream.outcomes import Deferred, Faulted, Postponed
from taskhub.upstream.target import Target
from taskhub.worker import engine, running
from taskhub.worker.previews import Late, Previews
from taskhub.worker.running import Waits
from tests.domain import kit
from tests.domain.kit import World
from tests.support.guarded import Guarded
from tests.upstream import kit as upstream
from tests.worker.granted import authorize, listed, protected
from tests.worker.kit import Hall, attempts, ended, hint, in_state, wait_until
from tests.worker.planned import plans

PLANNED = Target("python", "tests.worker.planned:planned")
NOWHERE = Target("python", "tests.upstream.nowhere:server")
ADA = Actor(name="ada", door=Door.WEB)
BY_TOOL = {"tool": "plan"}
DRY_RUN = {"arguments": {"dry_run": True}}

pytestmark = pytest.mark.usefixtures("looks_often")


@pytest.fixture(autouse=True)
def _plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(engine, "SWEEP_SECONDS", 0.2)
    plans.reset()
    yield
    plans.reset()


@pytest.fixture
def server(hall: Hall) -> Server:
    """The server, which a worker has listed."""
    made = hall.server(PLANNED)
    hall.start()
    return made


def called(world: World, preview: dict[str, Any], *, revision: str = "2026-07-28", **says: Any) -> TaskRecord:
    """A call that a rule with this preview asks about."""
    tenant, client = world.context.tenant_id, world.context
    rule = Rule(name="asks", when="", then=Then.ASK, preview=preview_from_json(preview), **says)
    save_rules(tenant, [rule], expected=present(tenant).version, actor=ADA)
    given = {"service": "web"}
    verdict = Rules(present(tenant)).decide(
        Client(client.pk, client.name, client.issuer, client.subject, client.client_id, None),
        world.tool,
        given,
        program="",
        now=datetime.now(UTC),
    )
    more = {"permit_seconds": 60} if revision == DECIDED_ONLY else {}
    return kit.create(world, verdict=verdict, arguments=given, revision=revision, **more)


def previewed(task: TaskRecord, key: str = "approval") -> shown.ShownPreview:
    """The preview of this approval, once it has ended."""

    def look() -> shown.ShownPreview | None:
        question = Question.objects.filter(task_id=task.id, key=key).first()
        found = question and shown.shown_preview(question.pk)
        return found if found and found.ended_at else None

    found: shown.ShownPreview = wait_until(look, f"the preview of {key}")
    return found


def approve(task: TaskRecord) -> AnswerOutcome:
    return decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id))


def events(task: TaskRecord) -> list[dict[str, Any]]:
    found = Event.objects.filter(task_id=task.id, action="question.previewed").order_by("id")
    return list(found.values_list("after", flat=True))


@pytest.mark.parametrize(
    ("preview", "tool", "arguments"),
    [(BY_TOOL, "plan", {"service": "web"}), (DRY_RUN, "deploy", {"service": "web", "dry_run": True})],
)
def test_what_shows_the_same_before_the_call_lets_it_run_once(
    hall: Hall, server: Server, preview: dict[str, Any], tool: str, arguments: dict[str, Any]
) -> None:
    task = called(hall.tool(server, "deploy"), preview)
    found = previewed(task)
    assert (found.text, found.tool, json.loads(found.arguments or "")) == (plans.text, tool, arguments)
    assert (found.problem, found.is_error, found.left_out, found.changed) == ("", False, 0, False)
    assert kit.look(task.id).state is State.INPUT_REQUIRED
    assert approve(task) is AnswerOutcome.ANSWERED
    assert "deployed" in (ended(task.id).result_json or "")
    assert plans.of(tool).count(arguments) == 2
    assert plans.of("deploy").count({"service": "web", "dry_run": False}) == 1
    assert attempts(task.id) == ["finished"]
    question, decision = Question.objects.get(task_id=task.id), Decision.objects.get()
    assert bytes(decision.preview_digest or b"").hex() == found.digest
    assert decision.call_digest != question.call_digest
    approved = Event.objects.get(task_id=task.id, action="question.approve").after
    assert approved["preview_sha256"] == found.digest
    assert approved["call_sha256"] == bytes(decision.call_digest or b"").hex()
    ran = {"key": "approval", "tool": tool, "answered": True, "preview_sha256": found.digest}
    assert events(task) == [ran, ran]


def test_what_shows_something_else_before_the_call_is_asked_again(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL, group="ops", quorum=1)
    before = previewed(task).text
    plans.text = "9 pods would be replaced"
    approve(task)
    found = previewed(task, "approval-2")
    assert (found.text, found.changed, found.before) == (plans.text, True, before)
    waits = in_state(task.id, State.INPUT_REQUIRED)
    assert waits.message == (
        "Waiting for approval by ops, 0 of 1: its preview shows something else than when it was approved"
    )
    again = Question.objects.get(task_id=task.id, key="approval-2")
    first = Question.objects.get(task_id=task.id, key="approval")
    assert again.params == {**first.params, "asked_again": "preview_changed"}
    assert (again.group, again.quorum, again.state) == ("ops", 1, "open")
    assert plans.of("deploy") == []
    assert attempts(task.id) == ["released"]
    approve(task)
    ended(task.id)
    assert len(plans.of("deploy")) == 1
    assert len(plans.of("plan")) == 3


def test_nobody_approves_before_the_preview_has_ended_but_anybody_rejects(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), {"tool": "plan_slowly"})
    wait_until(lambda: plans.of("plan_slowly"), "the preview to run")
    assert approve(task) is AnswerOutcome.PREVIEWING
    assert Decision.objects.count() == 0
    why = Actor(name="ada", door=Door.CLI, reason="No.")
    assert decide_approval(task.id, kit.opened(task.id), approve=False, actor=why) is AnswerOutcome.ANSWERED
    assert "No." in (ended(task.id).result_json or "")
    plans.opened.set()
    assert previewed(task).text == plans.text
    assert len(events(task)) == 1


def test_its_caller_sees_nothing_of_it(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL)
    previewed(task)
    assert (Task.objects.count(), TaskLog.objects.count(), Outbound.objects.count()) == (1, 0, 0)
    record = kit.look(task.id)
    assert plans.text not in str(record)
    assert (record.version, record.message) == (task.version, task.message)


@pytest.mark.parametrize(
    ("tool", "preview", "problem"),
    [
        ("deploy", {"tool": "plan_nothing"}, "no such luck"),
        ("deploy", {"tool": "plan_by_asking"}, "It asks something itself, and nobody answers questions of a preview."),
        ("deploy", {"tool": "plan_and_write"}, "plan_and_write does not say that it only reads."),
        ("deploy", {"tool": "plans"}, "plans is not offered by the server."),
        ("drop", DRY_RUN, "The tool has no argument dry_run, so a preview would do its work."),
        ("deploy", {"arguments": {"dry_run": "yes"}}, "The value of dry_run does not surely fit the tool's schema."),
    ],
)
def test_a_preview_that_fails_is_no_obstacle_and_does_nothing(
    hall: Hall, server: Server, tool: str, preview: dict[str, Any], problem: str
) -> None:
    task = called(hall.tool(server, tool), preview)
    found = previewed(task)
    assert (found.text, found.problem) == (None, problem)
    assert plans.calls == []
    approve(task)
    ended(task.id)
    assert len(plans.of(tool)) == 1
    assert [event["answered"] for event in events(task)] == [False, False]


def test_a_preview_that_fails_now_and_did_not_before_is_asked_about(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL)
    before = previewed(task).text
    hall.tool(server, "plan", read_only=False)
    approve(task)
    found = previewed(task, "approval-2")
    assert (found.text, found.before, found.changed) == (None, before, True)
    assert found.problem == "plan does not say that it only reads."
    assert plans.of("deploy") == []


def test_an_error_of_the_tool_is_what_it_shows(hall: Hall, server: Server) -> None:
    found = previewed(called(hall.tool(server, "deploy"), {"tool": "plan_wrongly"}))
    assert (found.is_error, found.problem) == (True, "")
    assert "no such service" in (found.text or "")


def test_a_preview_that_takes_too_long_has_failed(hall: Hall, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "PREVIEW_SECONDS", 0.2)
    found = previewed(called(hall.tool(server, "deploy"), {"tool": "plan_slowly"}))
    assert (found.text, found.problem) == (None, "Its server gave no answer within 0 s")


def test_a_server_without_room_is_tried_again_later(
    hall: Hall, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "PREVIEW_SECONDS", 0.2)
    Server.objects.filter(pk=server.pk).update(calls_at_once=1)
    hint("c")
    assert hall.engine is not None
    servers = hall.engine.servers
    # Until the worker has read the table, there is none, or the one without the limit.
    pool = wait_until(lambda: (now := servers.pool(server.pk)) and now.most == 1 and now, "the server, with its limit")
    with hall.borrowed(pool):
        task = called(hall.tool(server, "deploy"), BY_TOOL)
        found = wait_until(lambda: Preview.objects.exclude(problem="").first(), "a try")
        assert (found.problem, found.ended_at) == ("Its server took no call within 0 s", None)
        assert plans.calls == []
    Preview.objects.update(next_at=datetime.now(UTC))
    monkeypatch.setattr(previews, "PREVIEW_SECONDS", 30.0)
    assert previewed(task).text == plans.text


@pytest.mark.parametrize("name", ["ask", "ask_model"])
def test_one_that_asks_in_the_middle_has_failed_whatever_it_says_then(hall: Hall, name: str) -> None:
    made = hall.server(upstream.OLD)
    hall.start()
    hall.tool(made, name, read_only=True)
    task = called(hall.tool(made, "echo"), {"tool": name})
    found = previewed(task)
    assert (found.text, found.problem) == (
        None,
        "It asks something itself, and nobody answers questions of a preview.",
    )
    assert Question.objects.count() == 1


def test_it_runs_with_the_grant_of_its_caller(hall: Hall, guarded: Guarded, admin: Actor) -> None:
    server = protected(hall, guarded, Way.SHARED, admin)
    authorize(server, guarded, "acme", admin)
    hall.start()
    listed(server)
    hall.tool(server, "whoami", read_only=True)
    task = called(hall.tool(server, "delete"), {"tool": "whoami"})
    assert previewed(task).text == "acme"
    gone: dict[str, Any] = {"access": None, "refresh": None, "refreshing_until": None}
    ServerGrant.objects.update(state="lapsed", problem="It ended", **gone)
    again = called(hall.tool(server, "delete"), {"tool": "whoami"})
    assert "authorized" in previewed(again).problem
    assert guarded.called == ["acme"]


def test_what_is_kept_of_an_answer_is_bounded_and_all_of_it_counts(
    hall: Hall, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "MAX_KEPT", 10)
    plans.text = "0123456789a"
    task = called(hall.tool(server, "deploy"), BY_TOOL)
    found = previewed(task)
    assert (found.text, found.left_out) == ("0123456789", 1)
    plans.text = "0123456789b"
    approve(task)
    assert previewed(task, "approval-2").digest != found.digest


def test_a_server_that_is_away_is_tried_a_few_times(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MAX_TRIES", 2)
    made = hall.server(NOWHERE, state="ready")
    hall.tool(made, "plan", read_only=True)
    task = called(hall.tool(made, "deploy"), BY_TOOL)
    hall.start()
    found = wait_until(lambda: Preview.objects.exclude(problem="").first(), "a reason")
    assert (found.ended_at, found.tries) == (None, 1)
    assert "cannot be reached" in found.problem
    Preview.objects.update(next_at=datetime.now(UTC))
    assert "cannot be reached" in previewed(task).problem


def test_another_worker_runs_what_a_lost_one_had_taken(hall: Hall) -> None:
    made = hall.server(PLANNED, state="ready")
    hall.tool(made, "plan", read_only=True)
    Tool.objects.update(definition={"inputSchema": {"properties": {"service": {}}}})
    task = called(hall.tool(made, "deploy"), BY_TOOL)
    (taken,) = previews.take_previews("lost:1", most=5)
    assert previews.take_previews("other:1", most=5) == []
    Preview.objects.update(next_at=datetime.now(UTC))
    hall.start()
    assert (previewed(task).text, previewed(task).tries) == (plans.text, 2)
    previews.end_preview(taken, shown.failed("late"), actor=ADA)
    assert previewed(task).problem == ""


def test_what_is_lost_with_every_worker_has_failed_in_the_end(hall: Hall) -> None:
    made = hall.server(PLANNED, state="ready")
    called(hall.tool(made, "deploy"), DRY_RUN)
    for tries in range(1, previews.MAX_TRIES + 2):
        (taken,) = previews.take_previews("lost:1", most=5)
        assert taken.tries == tries
        Preview.objects.update(next_at=datetime.now(UTC))
    assert taken.problem == "The workers that ran it were lost."


@pytest.mark.parametrize(
    ("came", "state", "message"),
    [
        (Faulted({"code": -1, "message": "away"}, unreached=True, problem="away"), State.FAULTED, "away"),
        (Postponed("later", 60.0), State.QUEUED, "later"),
        (Waits(None, "Its server is not connected"), State.QUEUED, "Its server is not connected"),
        (Late(begun=False), State.QUEUED, "Its server took no call within 30 s"),
    ],
)
def test_a_call_whose_preview_cannot_be_run_again_fares_as_if_it_had_been_called(
    hall: Hall, server: Server, monkeypatch: pytest.MonkeyPatch, came: Any, state: State, message: str
) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL)
    previewed(task)

    async def call(*_: Any) -> Any:
        return came

    monkeypatch.setattr(Previews, "_call", call)
    approve(task)
    wait_until(lambda: kit.look(task.id).message == message, message)
    assert kit.look(task.id).state is state
    assert plans.of("deploy") == []
    assert Question.objects.count() == 1


@pytest.mark.parametrize(
    ("came", "problem"),
    [
        (Faulted({"code": -1, "message": "lost on the way"}, lost=True), "lost on the way"),
        (Deferred(UpstreamTask("1", "2026-07-28", "", "", None)), "Its server runs it as a task of its own"),
        (Late(begun=True), "Its server gave no answer within 30 s"),
    ],
)
def test_one_that_was_called_in_vain_shows_something_else(
    hall: Hall, server: Server, monkeypatch: pytest.MonkeyPatch, came: Any, problem: str
) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL)
    previewed(task)

    async def call(*_: Any) -> Any:
        return came

    monkeypatch.setattr(Previews, "_call", call)
    approve(task)
    assert previewed(task, "approval-2").problem.startswith(problem)
    assert plans.of("deploy") == []


def test_an_error_of_the_hub_gives_the_call_back(hall: Hall, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.1)
    task = called(hall.tool(server, "deploy"), BY_TOOL)
    previewed(task)
    with monkeypatch.context() as patch:
        patch.setattr(previews, "approved_preview", lambda task_id: 1 / 0)
        approve(task)
        wait_until(lambda: "released" in attempts(task.id), "a try")
    assert "deployed" in (ended(task.id).result_json or "")


def test_what_is_cancelled_while_its_preview_runs_again_ends(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), {"tool": "plan_slowly"})
    plans.opened.set()
    previewed(task)
    plans.opened.clear()
    approve(task)
    wait_until(lambda: len(plans.of("plan_slowly")) == 2, "the preview to run again")
    request_cancel(task.id, actor=ADA)
    assert ended(task.id).state is State.CANCELLED
    assert plans.of("deploy") == []


def rules_deny() -> None:
    tenant = Tenant.objects.get()
    save_rules(tenant.pk, [Rule(name="denies", when="", then=Then.DENY)], expected=1, actor=ADA)


def definition_changes() -> None:
    Tool.objects.filter(name="deploy").update(digest="1" * 64)


MEANWHILE: dict[str, tuple[Callable[[], object], State]] = {
    "its client is locked out": (lambda: AuthContext.objects.update(disabled_at=datetime.now(UTC)), State.FAULTED),
    "its tool is turned off": (lambda: Tool.objects.filter(name="deploy").update(enabled=False), State.FAULTED),
    "a rule denies it": (rules_deny, State.FAULTED),
    "its approver leaves": (lambda: Membership.objects.update(role="viewer"), State.INPUT_REQUIRED),
    "its definition changes": (definition_changes, State.INPUT_REQUIRED),
}


@pytest.mark.parametrize("change", MEANWHILE)
def test_what_changes_while_the_preview_runs_again_counts(hall: Hall, server: Server, change: str) -> None:
    """How long a preview takes is up to its server."""
    happens, state = MEANWHILE[change]
    task = called(hall.tool(server, "deploy"), {"tool": "plan_slowly"})
    plans.opened.set()
    previewed(task)
    plans.opened.clear()
    approve(task)
    wait_until(lambda: len(plans.of("plan_slowly")) == 2, "the preview to run again")
    happens()
    plans.opened.set()
    in_state(task.id, state)
    assert plans.of("deploy") == []
    assert attempts(task.id)[0] == "released"


def test_another_rule_that_asks_about_the_edited_call_has_its_preview_called_again(hall: Hall, server: Server) -> None:
    world = hall.tool(server, "deploy")
    edited = Rule(name="shows", when='args.service == "db"', then=Then.ASK, preview=preview_from_json(BY_TOOL))
    first = Rule(name="asks", when="", then=Then.ASK, editable=("service",))
    save_rules(world.context.tenant_id, [edited, first], expected=0, actor=ADA)
    task = kit.create(world, verdict=Verdict(Then.ASK, first, 1), arguments={"service": "web"})
    question, actor = kit.opened(task.id), kit.approver(task.id)
    proposed = edits.proposal(task.id, question, {"service": "db"}, by="ada")
    assert edits.edit_call(task.id, question, proposed, votes=True, actor=actor) is EditOutcome.PROPOSED
    assert previewed(task, "approval-2").text == plans.text
    plans.text = "all data would be lost"
    approve(task)
    assert previewed(task, "approval-3").text == plans.text
    assert plans.of("deploy") == []


def test_a_tool_that_is_turned_off_shows_nothing(hall: Hall, server: Server) -> None:
    hall.tool(server, "plan", enabled=False)
    found = previewed(called(hall.tool(server, "deploy"), BY_TOOL))
    assert (found.text, found.problem) == (None, "plan is turned off.")
    assert plans.calls == []


def test_a_worker_that_stops_while_the_preview_runs_again_gives_the_call_back(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), {"tool": "plan_slowly"})
    plans.opened.set()
    previewed(task)
    plans.opened.clear()
    approve(task)
    wait_until(lambda: len(plans.of("plan_slowly")) == 2, "the preview to run again")
    hall.stop()
    assert kit.look(task.id).state is State.QUEUED
    assert attempts(task.id) == ["released"]


def test_what_the_rule_lets_run_was_shown_to_nobody(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL, otherwise=Otherwise.ALLOW)
    previewed(task)
    Question.objects.update(due_at=datetime.now(UTC))
    sweep()
    ended(task.id)
    assert len(plans.of("plan")) == 1
    assert len(plans.of("deploy")) == 1


def test_a_client_that_is_locked_out_has_no_preview(hall: Hall, server: Server) -> None:
    AuthContext.objects.update(disabled_at=datetime.now(UTC))
    assert previewed(called(hall.tool(server, "deploy"), BY_TOOL)).problem == "The client may not call any more."
    assert plans.calls == []


def test_a_call_that_its_client_makes_itself_has_one_while_people_are_asked(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL, revision=DECIDED_ONLY)
    previewed(task)
    plans.text = "something else"
    approve(task)
    assert ended(task.id).state is State.FINISHED
    assert len(plans.calls) == 1


def test_the_group_that_is_asked_next_has_a_preview_of_its_own(hall: Hall, server: Server) -> None:
    task = called(hall.tool(server, "deploy"), BY_TOOL, otherwise=Otherwise.ESCALATE, escalate_to="leads")
    previewed(task)
    Question.objects.update(due_at=datetime.now(UTC))
    sweep()
    assert previewed(task, "approval-2").text == plans.text
