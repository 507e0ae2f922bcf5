"""A call that is rejected, with its tool blocked for its client for an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskhub.core.rules import Client, Then
from taskhub.core.states import Role
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Question, RuleVersion, Task
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


def test_its_calls_are_denied_for_an_hour_and_nobody_elses(tenant: Any, sign_in: Login) -> None:
    heartbeat("worker-1", slots=8, busy=0)
    server = make_server(tenant)
    tool, other_tool = make_tool(server, 'de"ploy', asks={}), make_tool(server)
    bot, other = make_context(tenant, 'ci"bot'), make_context(tenant)
    tasks = [make_task(bot, tool, arguments={"n": n}) for n in range(2)]
    first, second = (Question.objects.get(task_id=task.id) for task in tasks)
    boss = sign_in(make_person(Role.ADMIN, tenant))
    card = boss.get(f"/inbox/{first.pk}/").content.decode()
    assert f'href="/inbox/{first.pk}/block"' in card
    assert "/block" not in sign_in(make_person(Role.APPROVER, tenant)).get(f"/inbox/{first.pk}/").content.decode()
    boss = sign_in(make_person(Role.ADMIN, tenant))
    url = f"/inbox/{first.pk}/block"
    page = boss.get(url).content.decode()
    assert "calls that wait now" in page
    assert boss.post(url, {"reason": ""}).status_code == 422
    assert first.state == "open"
    said = boss.post(url, {"reason": "too many"}, follow=True).content.decode()
    assert "Rejected. Its calls of this tool are denied for an hour" in said
    assert Task.objects.get(pk=tasks[0].id).message == "too many"
    listed = present(tenant.pk)
    assert (listed.rules[0].then, RuleVersion.objects.latest("number").reason) == (Then.DENY, "too many")

    def verdict(context: Any, which: Any, after: timedelta) -> Then:
        client = Client(context.pk, context.name, context.issuer, context.subject, context.client_id)
        found = tool_by_id(which.id)
        assert found is not None
        return Rules(listed).decide(client, found, {}, program="", now=datetime.now(UTC) + after).then

    soon, later = timedelta(minutes=59), timedelta(minutes=61)
    assert [verdict(bot, tool, soon), verdict(bot, tool, later)] == [Then.DENY, Then.ASK]
    assert [verdict(other, tool, soon), verdict(bot, other_tool, soon)] == [Then.ASK, Then.ALLOW]
    # Blocked again, there is one rule still; who changed the rules decides on no call of before.
    names = [rule.name for rule in listed.rules]
    another = sign_in(make_person(Role.ADMIN, tenant))
    another.post(f"/inbox/{second.pk}/block", {"reason": "again"})
    assert [rule.name for rule in present(tenant.pk).rules] == names
    assert Question.objects.get(pk=second.pk).state == "answered"


def test_who_may_not_change_rules_blocks_nothing(tenant: Any, sign_in: Login) -> None:
    task = make_task(make_context(tenant), make_tool(make_server(tenant), asks={}))
    question = Question.objects.get(task_id=task.id)
    versions = RuleVersion.objects.count()
    mia = sign_in(make_person(Role.APPROVER, tenant))
    assert mia.post(f"/inbox/{question.pk}/block", {"reason": "no"}).status_code == 403
    assert sign_in(make_person(Role.ADMIN)).post(f"/inbox/{question.pk}/block", {"reason": "no"}).status_code == 404
    assert (RuleVersion.objects.count(), Question.objects.get(pk=question.pk).state) == (versions, "open")
