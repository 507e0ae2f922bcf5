"""A bypass: what it lets pass and what not, its time, its end, and what the audit log says of it."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from taskhub.core.bypass import MAX_MINUTES, MAX_REASON
from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import Client, Risk, Rule, Then, Verdict
from taskhub.core.states import Door, State
from taskhub.domain.catalogue.writes import remove_server
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.rules.bypasses import begin_bypass, bypasses, close_overdue, end_bypass, present_bypass
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.rerun import rerun_task
from taskhub.store.models import Bypass, Event, Membership, Task
from tests import factories
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_person, make_server, make_tenant

pytestmark = pytest.mark.django_db

ADA = Actor(name="ada", door=Door.WEB)
ASK = Rule(name="asks", when="", then=Then.ASK, group="ops")
CRITICAL = replace(ASK, risk=Risk.CRITICAL)
DENY = Rule(name="denies", when="", then=Then.DENY, words="The week is frozen.")
OTHER = Rule(name="other", when='client.name == "nobody"', then=Then.DENY)


def save(world: World, *rules: Rule) -> None:
    tenant = world.context.tenant_id
    save_rules(tenant, rules, expected=present(tenant).version, actor=ADA)


def begin(world: World, **given: Any) -> int:
    return begin_bypass(world.context.tenant_id, **{"minutes": 30, "reason": "Outage", "actor": ADA, **given}).id


def judge(world: World) -> Verdict:
    """What is decided of a call of the world's client now."""
    client, rules = world.context, Rules(present(world.context.tenant_id))
    who = Client(client.pk, client.name, client.issuer, client.subject, client.client_id)
    verdict = rules.decide(who, world.tool, {"text": "hello"}, program="", now=datetime.now(UTC))
    return rules.let_pass(verdict, world.tool)


def create(world: World) -> TaskRecord:
    return kit.create(world, verdict=judge(world))


def decided(task: TaskRecord) -> Any:
    return Task.objects.values_list("decided", flat=True).get(pk=task.id)


def approve(task: TaskRecord) -> None:
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id))


def let_time_pass(bypass: int) -> None:
    """As if its time were over."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a table with pending triggers cannot be altered
        cursor.execute("ALTER TABLE bypass DISABLE TRIGGER bypass_guard")
        cursor.execute(
            "UPDATE bypass SET began_at = began_at - interval '1 day', ends_at = ends_at - interval '1 day'"
            " WHERE id = %s",
            [bypass],
        )
        cursor.execute("ALTER TABLE bypass ENABLE TRIGGER bypass_guard")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def test_what_a_rule_would_ask_about_runs_and_names_the_bypass() -> None:
    world = kit.make_world()
    save(world, ASK)
    number = begin(world, reason="  Outage of the inbox  ")
    task = create(world)
    until = Bypass.objects.get().ends_at.astimezone(UTC).isoformat(timespec="seconds")
    named = {"id": number, "until": until, "reason": "Outage of the inbox", "by": "ada"}
    assert decided(task) == {"then": "allow", "version": 1, "rule": "asks", "doubt": False, "bypass": named}
    assert kit.claim_one().task_id == task.id
    assert kit.actions(task.id) == ["task.created", "task.claimed"]


def test_what_nobody_would_be_asked_about_is_not_marked() -> None:
    world = kit.make_world(asks={"when": {"text": "else"}})
    begin(world)
    assert judge(world).bypass is None
    save(world, Rule(name="allows", when="", then=Then.ALLOW))
    assert judge(world).bypass is None


@pytest.mark.parametrize("rule", [DENY, Rule(name="hides", when="", then=Then.HIDE), CRITICAL])
def test_what_is_denied_hidden_or_critical_stays_so(rule: Rule) -> None:
    world = kit.make_world()
    save(world, rule)
    before = judge(world)
    begin(world)
    assert judge(world) == before
    assert before.then is (Then.ASK if rule is CRITICAL else Then.DENY)


def test_one_server_only() -> None:
    world = kit.make_world(asks={})
    other = make_server(world.context.tenant)
    number = begin(world, server_id=other.pk)
    assert judge(world).bypass is None
    end_bypass(world.context.tenant_id, number, actor=ADA)
    begin(world, server_id=world.tool.server_id)
    assert judge(world).then is Then.ALLOW
    assert judge(world).bypass is not None


def test_another_tenant_has_none() -> None:
    world, other = kit.make_world(asks={}), kit.make_world(asks={})
    number = begin(world)
    assert judge(other).bypass is None
    with pytest.raises(NotFound, match="no such server"):
        begin(other, server_id=world.tool.server_id)
    with pytest.raises(NotFound, match="no such bypass"):
        end_bypass(other.context.tenant_id, number, actor=ADA)


def test_it_ends_by_itself_and_what_waits_is_asked_about() -> None:
    world = kit.make_world()
    save(world, ASK)
    number = begin(world)
    task = create(world)
    let_time_pass(number)
    assert (present_bypass(world.context.tenant_id), judge(world).then) == (None, Then.ASK)
    assert kit.claim() == []
    asked, now = kit.opened(task.id), kit.look(task.id)
    assert (now.state, asked.group, asked.params["asked_again"]) == (State.INPUT_REQUIRED, "ops", "bypass_over")
    assert now.message.endswith("the bypass that would have let it run is over")
    assert decided(task) == {"then": "ask", "version": 1, "rule": "asks", "doubt": False}
    approve(task)
    assert kit.claim_one().task_id == task.id


def test_it_is_ended_early_and_what_waits_is_asked_about() -> None:
    world = kit.make_world(asks={"group": "ops"})
    task = (begin(world), create(world))[1]
    end_bypass(world.context.tenant_id, bypasses(world.context.tenant_id)[0].id, actor=ADA)
    assert kit.claim() == []
    asked = kit.opened(task.id)
    assert (asked.group, asked.params["asked_again"]) == ("ops", "bypass_over")
    assert (decided(task)["then"], decided(task)["version"]) == ("ask", 1)
    approve(task)
    assert kit.claim_one().task_id == task.id


def test_what_a_cache_still_lets_pass_is_asked_about_when_a_worker_takes_it() -> None:
    world = kit.make_world()
    save(world, ASK)
    number = begin(world)
    stale = judge(world)
    end_bypass(world.context.tenant_id, number, actor=ADA)
    task = kit.create(world, verdict=stale)
    assert kit.claim() == []
    assert kit.look(task.id).state is State.INPUT_REQUIRED


def test_what_is_kept_in_memory_is_over_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = kit.make_world(asks={})
    begin(world, minutes=1)
    rules = Rules(present(world.context.tenant_id))
    asks = factories.verdict_on(world.context, world.tool, {})
    assert rules.let_pass(asks, world.tool).bypass is not None
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert rules.let_pass(asks, world.tool) is asks


def test_the_next_one_lets_what_waits_pass_too() -> None:
    world = kit.make_world()
    save(world, ASK)
    number = begin(world)
    task = create(world)
    let_time_pass(number)
    later = begin(world, reason="Still out")
    assert kit.claim_one().task_id == task.id
    assert decided(task)["bypass"]["id"] == later
    assert Event.objects.filter(task_id=task.id, action="task.decided").count() == 1


def test_what_people_approved_before_keeps_their_approval() -> None:
    world = kit.make_world()
    save(world, ASK)
    task = create(world)
    approve(task)
    begin(world)
    save(world, OTHER, ASK)
    assert kit.claim_one().task_id == task.id
    assert "bypass" not in decided(task)


def test_a_question_that_is_open_stays_open() -> None:
    world = kit.make_world()
    save(world, ASK)
    task = create(world)
    begin(world)
    close_overdue()
    assert kit.claim() == []
    assert kit.opened(task.id).kind == "approval"


def test_a_call_that_is_run_again_passes_too() -> None:
    world = kit.make_world()
    task = create(world)
    kit.finish(kit.claim_one())
    save(world, ASK)
    begin(world)
    again = rerun_task(world.context.tenant_id, task.public_id, ADA)
    assert (again.state, decided(again)["bypass"]["by"]) == (State.QUEUED, "ada")


def test_at_most_one_at_a_time() -> None:
    world = kit.make_world()
    number = begin(world)
    with pytest.raises(Refused, match="in force already"):
        begin(world)
    with pytest.raises(DatabaseError, match="bypass_one_at_a_time"), transaction.atomic():
        Bypass.objects.create(
            tenant=world.context.tenant, reason="x", made_by="x", ends_at=datetime.now(UTC) + timedelta(minutes=5)
        )
    let_time_pass(number)
    assert begin(world) != number, "one whose time is over is closed first, and no worker is needed"
    assert begin(kit.make_world())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"minutes": 0}, "minutes"),
        ({"minutes": MAX_MINUTES + 1}, "minutes"),
        ({"minutes": True}, "minutes"),
        ({"reason": "  "}, "reason"),
        ({"reason": "x" * (MAX_REASON + 1)}, "reason"),
        ({"reason": "two\nlines"}, "reason"),
        ({"reason": "\ud800"}, "reason"),
    ],
)
def test_it_has_a_time_and_a_reason(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        begin(kit.make_world(), **given)
    assert caught.value.data["field"] == field


def test_the_longest_and_one_for_a_removed_server() -> None:
    world = kit.make_world()
    remove_server(tenant_id=world.context.tenant_id, server_id=world.tool.server_id, actor=ADA)
    with pytest.raises(NotFound):
        begin(world, server_id=world.tool.server_id)
    begin(world, minutes=MAX_MINUTES, reason="x" * MAX_REASON)


@pytest.mark.parametrize(
    "change", ["reason = 'other'", "ends_at = ends_at + interval '1 minute'", "made_by = 'eve'", "tenant_id = 0"]
)
def test_nothing_of_it_changes_but_its_end(change: str) -> None:
    begin(kit.make_world())
    with pytest.raises(DatabaseError, match="ends once"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE bypass SET ended_at = clock_timestamp(), {change}")
    with pytest.raises(DatabaseError, match="stays"), transaction.atomic():
        Bypass.objects.all().delete()


def test_an_end_is_noted_once_and_not_after_its_time() -> None:
    world = kit.make_world()
    tenant = world.context.tenant_id
    number = begin(world)
    let_time_pass(number)
    with pytest.raises(Refused, match="over already"):
        end_bypass(tenant, number, actor=ADA)
    assert (close_overdue(), close_overdue()) == (1, 0)
    (kept,) = bypasses(tenant)
    assert kept.ended_at == kept.ends_at
    with pytest.raises(DatabaseError, match="ends once"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE bypass SET ended_at = clock_timestamp()")


@pytest.mark.django_db(transaction=True)
def test_the_audit_log_has_its_beginning_its_end_and_every_call() -> None:
    world = kit.make_world()
    tenant = world.context.tenant_id
    save(world, ASK)
    number = begin(world, server_id=world.tool.server_id)
    task = create(world)
    end_bypass(tenant, number, actor=ADA)
    later = begin(world)
    kit.claim_one()
    let_time_pass(later)
    close_overdue()
    found = list(Event.objects.filter(tenant_id=tenant, action__startswith="rules.bypass").order_by("id"))
    assert [(event.action, event.actor, event.door, event.task_id) for event in found] == [
        ("rules.bypass.started", "ada", "web", None),
        ("rules.bypassed", world.context.name, "client", task.id),
        ("rules.bypass.ended", "ada", "web", None),
        ("rules.bypass.started", "ada", "web", None),
        ("rules.bypassed", "worker-1", "worker", task.id),
        ("rules.bypass.ended", "bypass", "policy", None),
    ]
    started, passed, ended, _, again, over = found
    named = passed.after["bypass"]
    assert (named["id"], named["reason"], named["by"], passed.after["rule"]) == (number, "Outage", "ada", "asks")
    assert again.after["bypass"]["id"] == later
    assert started.after == {
        "bypass": number,
        "until": named["until"],
        "reason": "Outage",
        "minutes": 30,
        "server": world.tool.server_name,
    }
    assert started.reason == "Outage"
    assert (ended.after, over.after) == ({"bypass": number, "in_time": False}, {"bypass": later, "in_time": True})
    assert kit.actions(task.id)[:2] == ["task.created", "rules.bypassed"]


def test_whoever_began_it_does_not_decide_on_earlier_calls() -> None:
    tenant = make_tenant()
    person = make_person("admin", tenant)
    actor = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
    begun = begin_bypass(tenant.pk, minutes=1, reason="Outage", actor=actor)
    assert Membership.objects.get(user_id=person.user_id).governed_at >= begun.began_at
