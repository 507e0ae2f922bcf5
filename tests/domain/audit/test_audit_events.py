"""What the audit log can say is what `domain/audit/kinds.py` says, whoever writes it: the database or Python."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import taskhub
from taskhub.core.bypass import Bypass
from taskhub.core.records import Actor
from taskhub.core.rules import Otherwise, Preview, Rule, Then, Verdict
from taskhub.core.states import TERMINAL, TRANSITIONS, Door, QuestionKind
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.audit import kinds as audit
from taskhub.domain.audit.record import record_event
from taskhub.domain.permits.writes import redeem_permit
from taskhub.domain.questions import asked_back
from taskhub.domain.questions.answer import answer_question, decide_approval, rule_outcome, undo_decision
from taskhub.domain.questions.previews import failed
from taskhub.domain.questions.remarks import comment, hand_over
from taskhub.domain.sessions import writes as sessions
from taskhub.domain.tasks import callers, checks, edits, previews, run
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import create_task
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import Decision, Event, RuleVersion, Tool
from tests.domain import kit
from tests.domain.hints.test_events_and_hints import a_long_life
from tests.domain.kit import World
from tests.factories import WORKER, make_person, make_question, make_tenant

HOME = Path(taskhub.__file__).parent
BY_RULES = ("allow", "deny")
"""Verdicts of rules where nobody decided: the event is `question.undecided`."""
VERDICTS = ("approve", "reject", "accept", "decline", "cancel", "answer", "ran", "unrun")
PAGE_VERDICTS = ("accept", "decline", "cancel", "refused")
IN_DATABASE = {
    "task.created",
    "task.decided",
    *TRANSITIONS,
    "task.cancel.requested",
    "task.write.stale",
    "task.outcome.unknown",
    "task.outcome.checked",
    "task.deferred",
    "task.left",
    "task.joined",
    *(f"question.{verdict}" for verdict in VERDICTS),
    "question.asked",
    "question.edited",
    "question.undone",
    "question.commented",
    "question.handed.over",
    "question.asked.back",
    "question.answered.back",
    "question.withdrawn",
    "question.undecided",
    "question.reminded",
    "question.previewed",
    "question.passed.on",
    "question.refused",
    "permit.issued",
    "permit.redeemed",
    "rules.bypassed",
    *(f"question.page.{verdict}" for verdict in PAGE_VERDICTS),
}
ADA = Actor(name="ada", door=Door.WEB)
ACCEPT = {"action": "accept", "content": {"name": "Ada"}}


def words_of(node: ast.expr) -> Iterator[str]:
    """The strings an expression may come to."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from words_of(node.body)
        yield from words_of(node.orelse)


@functools.cache
def recorded_in_python() -> dict[str, str]:
    """Every action that a call of something like `record_event` names, and where."""
    found = {}
    for file in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                named = [*node.args[:2], *(word.value for word in node.keywords if word.arg == "action")]
                calls = ast.unparse(node.func).rpartition(".")[2]
                if calls in ("record_event", "_record", "_reused"):
                    found |= {word: file.name for one in named for word in words_of(one) if "." in word}
            elif isinstance(node, ast.FunctionDef) and node.name == "_reused":
                found |= {word: file.name for default in node.args.kw_defaults if default for word in words_of(default)}
    return found


def test_what_python_records_is_written_down() -> None:
    recorded = recorded_in_python()
    assert len(recorded) > 40
    assert {word: where for word, where in recorded.items() if word not in audit.EVENTS} == {}


def test_no_event_is_written_down_that_nobody_records() -> None:
    assert set(audit.EVENTS) - IN_DATABASE - set(recorded_in_python()) == set()


def test_what_sql_records_is_driven_below() -> None:
    texts = [file.read_text() for file in (HOME / "domain").rglob("*.sql")]
    spelled = {word for text in texts for word in re.findall(r"'((?:task|question|permit|rules)\.[a-z.]*)'", text)}
    composed = {word for word in spelled if word.endswith(".")}
    assert composed == {"task.", "question.", "question.page."}
    assert spelled - composed - IN_DATABASE == set()
    # What they are composed with: the state a task ended in, and the verdict that a decision may hold.
    assert {f"task.{state}" for state in TERMINAL} <= IN_DATABASE
    (allowed,) = [found for found in Decision._meta.constraints if found.name == "decision_verdict_known"]
    assert allowed.deconstruct()[2]["condition"].children == [
        ("verdict__in", [*VERDICTS[:2], *BY_RULES, *VERDICTS[2:]])
    ]


def answered(world: World, kind: QuestionKind, response: dict[str, Any]) -> None:
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(kind, key="q"))
    answer_question(task.id, kit.opened(task.id), response, actor=ADA)
    request_cancel(task.id, actor=ADA)


def asks_back(task_id: int, approval: int, approver: Actor) -> None:
    """The requester answers one question of an approver, and another one is taken back."""
    to = asked_back.Requester({}, False, True, False, True, None, None, 0, 0)
    for _ in range(2):
        asked_back.ask(task_id, approval, "tool", "why?", to=to, actor=approver)
    first, second = asked_back.asked_back(task_id, approver.user_id)
    question = next(one for one in kit.look(task_id).questions if one.key == first.key)
    answer_question(task_id, question, {"action": "accept", "content": {"answer": "because"}}, actor=ADA)
    asked_back.withdraw(task_id, second.id, actor=approver)


def test_everything_the_database_records_has_its_shape(transactional_db: None) -> None:
    world = kit.make_world()
    a_long_life(world)
    for response in (ACCEPT, {"action": "decline"}, {"action": "cancel"}):
        answered(world, QuestionKind.ELICITATION, response)
    answered(world, QuestionKind.ROOTS, {"roots": []})
    for ran in (True, False):
        task = kit.create(world)
        run.lose(kit.claim_one(), told="lost", actor=WORKER)
        rule_outcome(task.id, kit.opened(task.id), ran=ran, result=kit.FINAL if ran else None, actor=ADA)
    request_cancel(task.id, actor=ADA)
    Tool.objects.filter(pk=world.tool.id).update(companion={"tool": "look"})
    task = kit.create(world)
    run.lose(kit.claim_one(), told="lost", actor=WORKER)
    (check,) = checks.take_checks()
    checks.end_check(check, problem="it is not there", actor=WORKER)
    request_cancel(task.id, actor=ADA)
    task = kit.create(world)
    taken = kit.claim_one()
    request_cancel(task.id, actor=ADA)
    kit.finish(taken)
    kit.finish(taken)
    kit.create(world)
    kit.fault(kit.claim_one())
    kit.create(world)
    kit.defer(kit.claim_one())
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(key="q"))
    Tool.objects.filter(pk=world.tool.id).update(people_after_program=True)
    answer_question(task.id, kit.opened(task.id), {"action": "decline"}, actor=world.actor)
    task = kit.create(world)
    kit.ask(kit.claim_one(), make_question(key="q"))
    sessions.refuse_request(0, task.id, kit.opened(task.id), {"code": -1, "message": "no"}, actor=world.actor)
    made = [create_task(kit.new_task(world, join_seconds=300, waiter="w"), world.actor) for _ in range(2)]
    callers.leave(made[0].task.id, "w", actor=world.actor)
    for verdict in PAGE_VERDICTS:
        task = kit.create(kit.make_world(asks={}))
        question = kit.opened(task.id, "approval")
        assert question.id is not None
        sessions.answer_page(task.id, question.id, verdict, actor=ADA)
    for approve in (True, False):
        careful = kit.make_world(asks={})
        task = kit.create(careful)
        decide_approval(task.id, kit.opened(task.id, "approval"), approve=approve, actor=ADA)
    for otherwise in Otherwise:
        group = "leads" if otherwise is Otherwise.ESCALATE else ""
        rule = Rule(name="r", when="", then=Then.ASK, otherwise=otherwise, escalate_to=group)
        task = kit.create(world, verdict=Verdict(Then.ASK, rule, 1))
        kit.turn_back(task.id, "due_at", 1, table="question")
    assert sweep() == 3
    reminds = Rule(name="r", when="", then=Then.ASK, remind_minutes=1)
    task = kit.create(world, verdict=Verdict(Then.ASK, reminds, 1))
    kit.turn_back(task.id, "remind_at", 1, table="question")
    assert sweep() == 1
    shows = Rule(name="r", when="", then=Then.ASK, preview=Preview(tool="look"))
    kit.create(world, verdict=Verdict(Then.ASK, shows, 1))
    for taken_preview in previews.take_previews("worker-1", most=1):
        previews.end_preview(taken_preview, failed("it is not there"), actor=WORKER)
    rule = Rule(name="r", when="", then=Then.ASK, editable=("text",))
    task = kit.create(world, verdict=Verdict(Then.ASK, rule, 1))
    question = kit.opened(task.id)
    edits.edit_call(task.id, question, edits.proposal(task.id, question, {}, by="ada"), votes=True, actor=ADA)
    ruled = kit.make_world()
    kit.create(ruled)
    RuleVersion.objects.create(tenant=ruled.context.tenant, number=1, rules=[], digest="0" * 64, made_by="ada")
    kit.claim(limit=10)
    careful = kit.make_world(asks={})
    task = kit.create(careful, revision=DECIDED_ONLY, permit_seconds=60)
    approver = replace(ADA, user_id=make_person("approver", careful.context.tenant).user_id)
    decide_approval(task.id, kit.opened(task.id, "approval"), approve=True, actor=approver)
    again = kit.create(careful)
    question = kit.opened(again.id)
    decide_approval(again.id, question, approve=True, actor=approver, undo_seconds=60)
    assert question.id is not None
    undo_decision(again.id, question.id, actor=approver)
    comment(again.id, question.id, "why?", actor=approver)
    hand_over(again.id, question.id, "", person=None, group="ops", actor=approver)
    asks_back(again.id, question.id, approver)
    digest = hashlib.sha256(b'{"text":"hello"}').hexdigest()
    redeem_permit(task.public_id, context_id=careful.context.pk, arguments_sha256=digest, actor=careful.actor)
    bypass = Bypass(1, "Outage", "ada", datetime.now(UTC), datetime.now(UTC))
    kit.create(careful, verdict=Verdict(Then.ALLOW, bypass=bypass))
    seen = {(event.action, *map(names, (event.before, event.after))) for event in Event.objects.all()}
    assert {action for action, _, _ in seen} - {"rules.changed"} == IN_DATABASE
    assert [problem for event in seen if (problem := audit.unlike(*event))] == []


def names(fields: dict[str, Any] | None) -> tuple[str, ...] | None:
    return None if fields is None else tuple(sorted(fields))


@pytest.mark.parametrize(
    ("action", "before", "after", "problem"),
    [
        ("token.burnt", None, {}, "no event is called token.burnt"),
        ("token.revoked", None, {}, "token.revoked has prefix in `after`, not nothing"),
        ("token.revoked", None, None, "token.revoked has prefix in `after`, not nothing"),
        ("token.revoked", None, {"prefix": "a", "token": "b"}, "not prefix token"),
        ("token.revoked", {"prefix": "a"}, {"prefix": "a"}, "token.revoked has nothing in `before`, not prefix"),
        ("person.signed.in", None, {"password": "a"}, "person.signed.in has nothing in `after`, not password"),
    ],
)
def test_an_event_of_another_shape_is_refused(db: None, action: str, before: Any, after: Any, problem: str) -> None:
    with pytest.raises(UserWarning, match=re.escape(problem)):
        record_event(action, tenant_id=make_tenant().pk, target="it", actor=WORKER, before=before, after=after)
    assert not Event.objects.exists()


def test_what_may_be_missing_may_and_what_differs_is_open() -> None:
    assert audit.unlike("token.issued", None, ("prefix", "scopes", "days")) == ""
    assert audit.unlike("token.issued", None, ("prefix", "scopes", "client_id", "seconds")) == ""
    assert audit.unlike("tool.policy.changed", ("mode",), ("mode",)) == ""
