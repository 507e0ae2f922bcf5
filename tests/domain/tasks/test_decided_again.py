"""Calls whose rules, or whose tool, have changed by the time a worker takes them: the rules decide them again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from oauth2_provider.models import get_application_model

from taskhub.core.names import OAUTH_ISSUER
from taskhub.core.records import Actor, TaskRecord
from taskhub.core.rules import NOBODY, Client, Rule, SignedIn, Then
from taskhub.core.states import Door, State
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import recheck
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.store.models import Application, Attempt, Consent, Event, Membership, Task, Tool
from tests.domain import kit
from tests.domain.kit import World
from tests.factories import make_person

pytestmark = pytest.mark.django_db

ADA = Actor(name="ada", door=Door.WEB)
ASK = Rule(name="asks", when="", then=Then.ASK, group="ops")
DENY = Rule(name="denies", when="", then=Then.DENY, words="The week is frozen.")
OTHER = Rule(name="other", when='client.name == "nobody"', then=Then.DENY)
ALLOW = Rule(name="allows", when="", then=Then.ALLOW)


def save(world: World, *rules: Rule) -> None:
    tenant = world.context.tenant_id
    save_rules(tenant, rules, expected=present(tenant).version, actor=ADA)


def create(world: World, scopes: frozenset[str] | None = None) -> TaskRecord:
    """A call of the world's client, as the rules that are in force decide it."""
    client, person = world.context, NOBODY
    if client.issuer == OAUTH_ISSUER:
        found = Membership.objects.select_related("user").get(user_id=int(client.subject.removeprefix("user:")))
        person = SignedIn(found.user.username, found.role, tuple(found.groups))
    verdict = Rules(present(client.tenant_id)).decide(
        Client(client.pk, client.name, client.issuer, client.subject, client.client_id, scopes, person),
        world.tool,
        {"text": "hello"},
        program="",
        now=datetime.now(UTC),
    )
    return kit.create(world, verdict=verdict)


def approve(task: TaskRecord) -> None:
    decide_approval(task.id, kit.opened(task.id), approve=True, actor=kit.approver(task.id))


def decided(task: TaskRecord) -> Any:
    return Task.objects.values_list("decided", flat=True).get(pk=task.id)


def told(task: TaskRecord) -> tuple[str, str, str]:
    """How the hub ended it: message, error and reason."""
    found = kit.look(task.id)
    assert found.state is State.FAULTED, found
    error = json.loads(found.error_json or "")
    return found.message, error["message"], error["data"]["reason"]


def test_a_task_keeps_what_the_rules_said_of_it() -> None:
    world = kit.make_world()
    before = create(world)
    save(world, OTHER, ASK)
    asked, by_scopes = create(world), create(world, frozenset({"b", "a"}))
    assert decided(before) is None
    verdict = {"then": "ask", "version": 1, "rule": "asks", "doubt": False}
    assert (decided(asked), decided(by_scopes)) == (verdict, {**verdict, "scopes": ["a", "b"]})
    created = [Event.objects.get(task_id=task.id, action="task.created").after for task in (before, by_scopes)]
    assert ["decided" in after for after in created] == [False, True]
    assert created[1]["decided"] == verdict


def test_what_the_same_rules_decided_is_not_decided_again() -> None:
    world = kit.make_world()
    save(world, OTHER)
    task = create(world)
    assert kit.claim_one().task_id == task.id
    assert kit.actions(task.id) == ["task.created", "task.claimed"]


def test_what_other_rules_allow_too_runs_and_names_their_version() -> None:
    world = kit.make_world()
    task = create(world)
    save(world, ALLOW)
    assert kit.claim_one().task_id == task.id
    assert decided(task) == {"then": "allow", "version": 1, "rule": "allows", "doubt": False}
    event = Event.objects.get(task_id=task.id, action="task.decided")
    assert (event.before, event.after, event.target) == ({}, {"decided": decided(task)}, world.tool.exposed_name)


def test_what_was_decided_by_rules_that_are_gone_runs_by_the_tools_policy() -> None:
    world = kit.make_world()
    save(world, DENY)
    save(world)
    assert decided(task := create(world)) == {"then": "allow", "version": 2}
    save(world, ASK)
    save(world)
    assert kit.claim_one().task_id == task.id
    assert decided(task) == {"then": "allow", "version": 4}


@pytest.mark.parametrize("then", [Then.DENY, Then.HIDE])
def test_what_a_new_rule_denies_does_not_run(then: Then) -> None:
    world = kit.make_world()
    task = create(world)
    save(world, Rule(name="denies", when="", then=then, words="The week is frozen." if then is Then.DENY else ""))
    assert kit.claim() == []
    why = {
        Then.DENY: "The week is frozen.",
        Then.HIDE: "a rule of this hub hides this tool from its client",
    }[then]
    assert decided(task)["then"] == then
    assert told(task) == (f"Not run: {why}", f"Not run: {why}", "denied_by_rule")
    assert kit.look(task.id).ended_as == "denied"
    (attempt,) = Attempt.objects.filter(task_id=task.id)
    assert (attempt.outcome, attempt.ended_at is not None) == ("faulted", True)
    assert kit.actions(task.id) == ["task.created", "task.claimed", "task.decided", "task.faulted"]
    assert kit.claim() == []


def test_an_approved_call_that_a_new_rule_denies_does_not_run() -> None:
    world = kit.make_world()
    save(world, ASK)
    task = create(world)
    approve(task)
    save(world, DENY)
    assert kit.claim() == []
    assert told(task)[0] == "Not run: The week is frozen."


def test_what_a_new_rule_asks_about_waits_for_people_and_then_runs() -> None:
    world = kit.make_world()
    task = create(world)
    save(world, OTHER, ASK)
    assert kit.claim() == []
    asked, now = kit.opened(task.id), kit.look(task.id)
    assert (now.state, asked.key, asked.group) == (State.INPUT_REQUIRED, "approval", "ops")
    says = {"expires_minutes": 1_440, "otherwise": "deny"}
    assert asked.params["decided"] == {"rule": "asks", "version": 1, "doubt": False, **says, "again": True}
    assert now.message.endswith("the rules, the tool or the rights of its caller have changed since it was called")
    assert (kit.column(task.id, "worker"), kit.column(task.id, "lease_until")) == ("", None)
    approve(task)
    assert kit.claim_one().epoch == 2
    assert list(Attempt.objects.order_by("number").values_list("outcome", flat=True)) == ["released", ""]


def test_an_approval_stands_while_its_rule_stays_as_it_was() -> None:
    world = kit.make_world()
    save(world, ASK)
    task = create(world)
    approve(task)
    save(world, OTHER, ASK)
    assert kit.claim_one().task_id == task.id
    assert decided(task)["version"] == 2


@pytest.mark.parametrize(
    "changed",
    [
        Rule(name="asks", when="", then=Then.ASK, group="ops", quorum=2),
        Rule(name="asks", when="", then=Then.ASK, group="security"),
        Rule(name="asks", when='args.text == "hello"', then=Then.ASK, group="ops"),
        Rule(name="asks too", when="", then=Then.ASK, group="ops"),
    ],
    ids=["quorum", "group", "expression", "another rule"],
)
def test_people_are_asked_again_where_another_rule_asks(changed: Rule) -> None:
    world = kit.make_world()
    save(world, ASK)
    task = create(world)
    approve(task)
    save(world, changed)
    assert kit.claim() == []
    asked = kit.opened(task.id)
    assert (asked.key, asked.group, asked.quorum) == ("approval-2", changed.group, changed.quorum)
    assert (asked.params["decided"]["rule"], asked.params["decided"]["version"]) == (changed.name, 2)


def test_the_rules_decide_by_the_groups_that_the_person_has_now() -> None:
    world = kit.make_world()
    ada = make_person("operator", world.context.tenant, groups=["hr"])
    world.context.issuer, world.context.subject = OAUTH_ISSUER, f"user:{ada.user_id}"
    world.context.save()
    task = Task.objects.select_related("context").get(pk=create(world).id)
    save(world, Rule(name="hr only", when='!("hr" in person.groups)', then=Then.DENY))
    listed = Rules(present(world.context.tenant_id))
    assert recheck.decide(task, world.tool, listed).then is Then.ALLOW
    Membership.objects.update(groups=[])
    assert recheck.decide(task, world.tool, listed).then is Then.DENY


def of_person(*groups: str) -> World:
    """A client that a person in these groups signed in."""
    world = kit.make_world()
    ada = make_person("operator", world.context.tenant, groups=list(groups))
    world.context.issuer, world.context.subject, world.context.client_id = (
        OAUTH_ISSUER,
        f"user:{ada.user_id}",
        ada.username,
    )
    world.context.save()
    registration = get_application_model().objects.create(client_id=ada.username, client_type="public")
    known = Application.objects.create(tenant=world.context.tenant, registration=registration)
    Consent.objects.create(application=known, user_id=ada.user_id, scopes=["tasks:call"])
    return world


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (Rule(name="hr only", when='!("hr" in person.groups)', then=Then.DENY), State.FAULTED),
        (Rule(name="hr sees it", when='!("hr" in person.groups)', then=Then.HIDE), State.FAULTED),
        (Rule(name="others are asked about", when='!("hr" in person.groups)', then=Then.ASK), State.INPUT_REQUIRED),
        (Rule(name="no viewers", when='person.role == "viewer"', then=Then.DENY), State.WORKING),
    ],
    ids=["denied", "hidden", "asked about", "allowed"],
)
def test_who_left_a_group_since_the_call_is_decided_by_what_they_are_now(rule: Rule, state: State) -> None:
    world = of_person("hr")
    save(world, rule)
    task = create(world)
    Membership.objects.update(groups=[])
    assert bool(kit.claim()) is (state is State.WORKING)
    assert kit.look(task.id).state is state
    assert Event.objects.filter(task_id=task.id, action="task.decided").count() == 1
    assert "person" not in Event.objects.get(task_id=task.id, action="task.created").after["decided"]


def test_an_approved_call_of_somebody_who_left_the_group_does_not_run() -> None:
    world = of_person("hr")
    save(world, Rule(name="hr only", when='!("hr" in person.groups)', then=Then.DENY), ASK)
    task = create(world)
    approve(task)
    Membership.objects.filter(groups=["hr"]).update(groups=["other"])
    assert kit.claim() == []
    assert told(task)[2] == "denied_by_rule"


def test_rules_that_say_nothing_of_people_do_not_decide_again_because_of_them() -> None:
    world = of_person("hr")
    save(world, OTHER)
    task = create(world)
    Membership.objects.update(groups=[])
    kit.claim_one()
    assert kit.actions(task.id) == ["task.created", "task.claimed"]


def test_the_rules_decide_by_what_the_tool_has_become() -> None:
    world = kit.make_world()
    save(world, Rule(name="no deletes", when='tool.title == "Delete"', then=Then.DENY))
    task = create(world)
    definition = {**world.tool.definition, "title": "Delete"}
    Tool.objects.filter(pk=world.tool.id).update(definition=definition, digest="ab" * 32)
    assert kit.claim() == []
    assert told(task)[2] == "denied_by_rule"


def test_the_rules_decide_by_the_scopes_that_the_token_had() -> None:
    world = kit.make_world()
    trusted, other = create(world, frozenset({"deploy"})), create(world, frozenset())
    assert (decided(trusted), decided(other)) == (None, None)
    save(world, OTHER)
    trusted, other = create(world, frozenset({"deploy"})), create(world, frozenset())
    save(world, Rule(name="scope", when='!("deploy" in client.scopes)', then=Then.DENY))
    ran = {claim.task_id for claim in kit.claim(limit=10)}
    assert trusted.id in ran
    assert other.id not in ran


@pytest.mark.parametrize("rule", [ASK, DENY], ids=["asked about", "denied"])
def test_a_cancelled_call_that_may_not_run_by_now_ends(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    world = kit.make_world()
    task = create(world)
    save(world, rule)
    decide = recheck.decide

    def cancel_first(*given: Any) -> Any:
        request_cancel(task.id, actor=world.actor)
        return decide(*given)

    monkeypatch.setattr(recheck, "decide", cancel_first)
    assert kit.claim() == [], "nobody has approved it, so it does not run because its client withdraws it"
    now = kit.look(task.id)
    assert (now.state, now.message, now.questions) == (State.CANCELLED, "Cancelled before it ran", ())
    (attempt,) = Attempt.objects.filter(task_id=task.id)
    assert attempt.outcome == "cancelled"


def test_a_call_about_which_the_rules_cannot_be_asked_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = kit.make_world()
    sound, broken = create(world), create(world)
    save(world, OTHER)
    decide = recheck.decide

    def fail(task: Task, *given: Any) -> Any:
        if task.pk == broken.id:
            raise RuntimeError("boom")
        return decide(task, *given)

    monkeypatch.setattr(recheck, "decide", fail)
    assert [claim.task_id for claim in kit.claim(limit=2)] == [sound.id]
    now = kit.look(broken.id)
    assert (now.state, now.message) == (State.QUEUED, "The rules could not be asked about it")
    assert "the rules could not decide it again" in caplog.text
    kit.turn_back(broken.id, "runnable_at", 60)
    monkeypatch.undo()
    assert kit.claim_one().task_id == broken.id
