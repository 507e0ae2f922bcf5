"""Rules that are proposed, since people approved all calls of a kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from taskhub.core.records import Actor, ToolRecord
from taskhub.core.rules import Otherwise, Risk, Rule, Then
from taskhub.core.states import Door
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.domain.questions.answer import decide_approval
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.proposals import MAX_DECIDED, MIN_APPROVED, Proposal, dismiss, proposals
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import edits
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.sweep import sweep
from taskhub.store.models import AuthContext, Event, Question, Tenant, Tool
from tests.domain import kit
from tests.domain.cost import statements
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool, verdict_on
from tests.store.touched import rows_looked_at
from tests.support.factors import Phone

pytestmark = pytest.mark.django_db
SHELL = Actor(name="manage.py", door=Door.CLI)
DEPLOYS = Rule(name="Deploys", when='tool.name == "deploy"', then=Then.ASK, editable=("service",))
SCHEMA = {
    "type": "object",
    "properties": {
        "environment": {"type": "string"},
        "service": {"type": "string"},
        "replicas": {"type": "integer", "default": 1},
        "force": {"type": "boolean"},
    },
}


class Place:
    """A tenant whose rule asks about the deploys of ci-bot."""

    def __init__(self, *rules: Rule, schema: dict[str, Any] = SCHEMA) -> None:
        self.tenant: Tenant = make_tenant()
        self.bot: AuthContext = make_context(self.tenant, "ci-bot")
        made = make_tool(make_server(self.tenant, "ops"), "deploy")
        Tool.objects.filter(pk=made.id).update(definition={"name": "deploy", "inputSchema": schema})
        forget_catalogues()
        (self.tool,) = self.offered()
        person = make_person("approver", self.tenant)
        self.mia = Actor(name=person.username, door=Door.WEB, user_id=person.user_id)
        self.save(*(rules or (DEPLOYS,)))

    def offered(self) -> tuple[ToolRecord, ...]:
        return tuple(catalogue(self.tenant.pk).tools)

    def save(self, *rules: Rule) -> None:
        save_rules(self.tenant.pk, rules, expected=present(self.tenant.pk).version, actor=SHELL)

    def asked(self, bot: AuthContext | None = None, **arguments: Any) -> int:
        """A call that the rules ask about; returns its task."""
        bot = bot or self.bot
        assert verdict_on(bot, self.tool, arguments).then is Then.ASK
        return make_task(bot, self.tool, arguments=arguments).id

    def decide(self, approve: bool = True, bot: AuthContext | None = None, **arguments: Any) -> int:
        task = self.asked(bot, **arguments)
        decide_approval(task, kit.opened(task), approve=approve, actor=self.mia)
        return task

    def often(self, count: int = MIN_APPROVED, *, bot: AuthContext | None = None, **arguments: Any) -> None:
        """So many approved calls, each of another service."""
        for n in range(count):
            self.decide(bot=bot, **{"service": f"s{n}", **arguments})

    def proposed(self) -> list[Proposal]:
        forget_catalogues()
        return proposals(self.tenant.pk, present(self.tenant.pk), self.offered())


STAGING = (
    'client.issuer == "taskhub" && client.subject == "ci-bot" && client.id == "ci-bot" && server.name == "ops"'
    ' && tool.name == "deploy" && args.environment == "staging" && !has(args.force) && args.replicas == 1'
    ' && args.all(name, name in ["environment", "force", "replicas", "service"])'
)


def test_what_was_approved_every_time_is_proposed_with_the_numbers() -> None:
    place = Place(Rule(name="Reads", when="tool.readOnly", then=Then.ALLOW), DEPLOYS)
    place.often(MIN_APPROVED - 1, environment="staging")
    assert place.proposed() == []
    place.decide(environment="staging", service="last")
    (found,) = place.proposed()
    assert found.rule == Rule(name="ci-bot: deploy", when=STAGING, then=Then.ALLOW)
    assert (found.asking, found.place, found.client, found.tool) == ("Deploys", 1, "ci-bot", "deploy")
    assert (found.approved, found.days, found.free) == (MIN_APPROVED, 30, ("service",))
    assert found.values == (("environment", ("staging",)), ("replicas", (1,)))
    took = [one.closed_at - one.opened_at for one in Question.objects.all() if one.closed_at is not None]
    assert abs(found.average - sum(took, timedelta()) / MIN_APPROVED) < timedelta(milliseconds=1)
    assert present(place.tenant.pk).version == 1, "nothing is changed"


def test_saved_where_it_is_proposed_it_lets_those_calls_run_and_no_others_and_is_proposed_no_more() -> None:
    place = Place()
    place.often(environment="staging")
    (found,) = place.proposed()
    place.save(found.rule, DEPLOYS)

    def then(bot: AuthContext, **arguments: Any) -> Then:
        return verdict_on(bot, place.tool, arguments).then

    usual = {"environment": "staging", "service": "another"}
    assert then(place.bot, **usual) is Then.ALLOW
    for other in (
        {**usual, "environment": "production"},
        {**usual, "environment": " Staging"},
        {**usual, "force": True},
        {**usual, "replicas": 5},
        {**usual, "skip_checks": True},  # listed nowhere, and taken by the tool for all that anybody knows
        {"service": "another"},
    ):
        assert then(place.bot, **other) is Then.ASK, other
    namesake = make_context(place.tenant, "other")
    AuthContext.objects.filter(pk=namesake.pk).update(name="ci-bot")
    namesake.refresh_from_db()
    assert then(namesake, **usual) is Then.ASK
    assert place.proposed() == []


@pytest.mark.parametrize("how", ["rejected", "edited", "undecided"])
def test_one_other_word_is_enough_for_no_proposal(how: str) -> None:
    place = Place(replace(DEPLOYS, otherwise=Otherwise.ALLOW))
    place.often(environment="staging")
    assert len(place.proposed()) == 1
    if how == "rejected":
        place.decide(approve=False, environment="staging", service="s1")
    task = 0 if how == "rejected" else place.asked(environment="staging", service="s1")
    if how == "edited":
        changed = {"environment": "staging", "service": "s2"}
        proposal = edits.proposal(task, kit.opened(task), changed, by="mia")
        edits.edit_call(task, kit.opened(task), proposal, votes=True, actor=place.mia)
    if how == "undecided":
        kit.turn_back(task, "due_at", 1, table="question")
        assert sweep() == 1
    assert place.proposed() == []


def test_what_its_client_cancelled_says_nothing() -> None:
    place = Place()
    place.often(environment="staging")
    request_cancel(place.asked(environment="staging", service="x"), actor=SHELL)
    (found,) = place.proposed()
    assert found.approved == MIN_APPROVED


def test_what_was_rejected_is_left_out_by_the_value_that_tells_it_apart() -> None:
    place = Place()
    place.often(MIN_APPROVED + 2, environment="staging")
    place.decide(environment="production", service="web")
    place.decide(approve=False, environment="production", service="web")
    (found,) = place.proposed()
    assert found.rule.when == STAGING
    assert found.approved == MIN_APPROVED + 2


def test_few_values_are_named_and_numbers_lie_between_the_least_and_the_most() -> None:
    place = Place()
    for n in range(MIN_APPROVED):
        given: dict[str, Any] = {"environment": ("staging", "test")[n % 2], "replicas": n + 2}
        place.decide(**given, **({"force": False} if n % 4 == 0 else {}))
    (found,) = place.proposed()
    when = found.rule.when.partition('tool.name == "deploy" && ')[2]
    environments = {'args.environment in ["staging", "test"]', 'args.environment in ["test", "staging"]'}
    assert any(when.startswith(one) for one in environments)
    assert "(!has(args.force) || args.force == false)" in when
    assert f"args.replicas >= 2 && args.replicas <= {MIN_APPROVED + 1}" in when
    assert "!has(args.service)" in when
    assert found.free == ("replicas",)


@pytest.mark.parametrize(
    "given",
    [
        {"service": None},  # is in doubt
        {"service": ["web"]},
        {"service": "x" * 300},
    ],
)
def test_nothing_is_proposed_where_what_stayed_the_same_cannot_be_said(given: dict[str, Any]) -> None:
    place = Place(schema={"type": "object", "properties": {}})
    for _ in range(MIN_APPROVED):
        place.decide(environment="staging", **given)
    assert place.proposed() == []


def test_nothing_is_proposed_where_nothing_stayed_the_same() -> None:
    place = Place(schema={"type": "object", "properties": {"service": {"type": "string"}}})
    place.often()
    assert place.proposed() == []


def test_a_tool_without_arguments_is_proposed_as_it_is() -> None:
    place = Place(schema={"type": "object"})
    for _ in range(MIN_APPROVED):
        place.decide()
    (found,) = place.proposed()
    assert found.rule.when.endswith('tool.name == "deploy" && size(args) == 0')
    place.save(found.rule, DEPLOYS)
    assert verdict_on(place.bot, place.tool, {}).then is Then.ALLOW
    assert verdict_on(place.bot, place.tool, {"force": True}).then is Then.ASK


def test_a_tool_that_takes_no_other_arguments_is_proposed_without_saying_so() -> None:
    place = Place(schema={**SCHEMA, "additionalProperties": False})
    place.often(environment="staging")
    (found,) = place.proposed()
    assert found.rule.when.endswith("args.replicas == 1")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"risk": Risk.CRITICAL}, "it is critical now"),
        ({"quorum": 2}, "it asks more people now"),
        ({"group": "ops"}, "it asks others now"),
        ({"second_factor": True}, "it wants a second factor now"),
        ({"enabled": False}, "it is off"),
        ({"shadow": True}, "it is on trial"),
        ({"when": 'tool.name == "deploy" && args.environment == "production"'}, "it does not ask about them now"),
    ],
)
def test_what_was_approved_counts_for_the_rule_as_it_is(change: dict[str, Any], why: str) -> None:
    place = Place()
    place.often(environment="staging")
    place.save(replace(DEPLOYS, **change))
    assert place.proposed() == [], why


def test_approvals_with_a_second_factor_count_for_a_rule_that_wants_one() -> None:
    place = Place(replace(DEPLOYS, second_factor=True))
    person = make_person("approver", place.tenant)
    place.mia = Actor(name=person.username, door=Door.WEB, user_id=person.user_id, factor=Phone(person).factor)
    place.often(environment="staging")
    assert [one.approved for one in place.proposed()] == [MIN_APPROVED]


def test_what_was_approved_of_another_definition_of_the_tool_does_not_count() -> None:
    place = Place()
    place.often(environment="staging")
    Tool.objects.update(digest="1" * 64)
    assert place.proposed() == []


def test_of_a_rule_whose_preview_has_differed_nothing_is_proposed() -> None:
    place = Place()
    place.often(environment="staging")
    assert len(place.proposed()) == 1
    question = Question.objects.filter(state="answered").latest("id")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO question (task_id, tenant_id, key, kind, params, audience, state, closed_at)"
            " VALUES (%s, %s, 'approval-2', 'approval', %s, 'operator', 'superseded', now())",
            [question.task_id, place.tenant.pk, '{"decided":{"rule":"Deploys"},"asked_again":"preview_changed"}'],
        )
    assert place.proposed() == []


def test_each_client_has_its_own_and_the_one_with_more_comes_first() -> None:
    place = Place()
    other = make_context(place.tenant, "nightly")
    place.often(environment="staging")
    place.often(MIN_APPROVED + 1, bot=other, environment="test")
    assert [(one.client, one.approved) for one in place.proposed()] == [
        ("nightly", MIN_APPROVED + 1),
        ("ci-bot", MIN_APPROVED),
    ]
    assert proposals(make_tenant().pk, present(place.tenant.pk), place.offered()) == []


def test_a_dismissed_one_comes_back_when_the_numbers_have_doubled() -> None:
    place = Place()
    place.often(environment="staging")
    dismiss(place.tenant.pk, place.proposed()[0], actor=SHELL)
    event = Event.objects.get(action="rules.proposal.dismissed")
    assert event.after == {
        "rule": "Deploys",
        "client": "ci-bot",
        "tool": "deploy",
        "when": STAGING,
        "approved": MIN_APPROVED,
    }
    assert event.actor == "manage.py"
    place.often(MIN_APPROVED - 1, environment="staging")
    assert place.proposed() == []
    place.decide(environment="staging", service="last")
    (found,) = place.proposed()
    assert found.approved == 2 * MIN_APPROVED
    dismiss(place.tenant.pk, found, actor=SHELL)
    assert place.proposed() == []


def copied(each: int, kind: str, ago: str) -> None:
    """As many more of each question that is closed, of this kind, closed at other times."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO question (task_id, tenant_id, key, kind, params, audience, state, response, definition_digest,"
            " opened_at, closed_at)"
            " SELECT task_id, tenant_id, %s || n || key, %s, params, audience, state, response, definition_digest,"
            f" opened_at, now() - interval '{ago}' FROM question, generate_series(1, %s) n WHERE key = 'approval'",
            [f"{kind} {ago}", kind, each],
        )
        cursor.execute("ANALYZE question")


def test_what_is_older_than_the_days_does_not_count() -> None:
    place = Place()
    place.often(MIN_APPROVED // 2, environment="staging")
    copied(1, "approval", "31 days")
    assert place.proposed() == []
    copied(1, "approval", "29 days")
    (found,) = place.proposed()
    assert found.approved == MIN_APPROVED


HISTORY = 3 * MAX_DECIDED


def test_it_reads_the_newest_decisions_and_no_more_however_long_the_history() -> None:
    place = Place()
    place.often(environment="staging")
    copied(HISTORY // MIN_APPROVED, "approval", "1 hour")
    copied(HISTORY // MIN_APPROVED, "elicitation", "1 minute")
    (found,) = place.proposed()
    assert (found.approved, found.days) == (MAX_DECIDED, 1), "as many, and as far back, as were read"
    listed, offered = present(place.tenant.pk), place.offered()

    def work() -> object:
        return proposals(place.tenant.pk, listed, offered)

    assert statements(work) == 2
    for table in ("question", "task"):
        assert rows_looked_at(table, work) <= MAX_DECIDED + 10, table
