"""A call that is rejected, with its tool blocked for its client for an hour."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskhub.control.caller import of_shell
from taskhub.control.configuration import apply_configuration, export_configuration
from taskhub.core.errors import Invalid
from taskhub.core.records import Actor
from taskhub.core.rules import Client, Then, to_json
from taskhub.core.states import Door, Role
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.rules.blocks import blocked_until, remove_ended, until_words
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.workers.writes import heartbeat
from taskhub.store.models import Question, RuleVersion, Task
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


def no_secrets(kind: str, name: str) -> str:
    raise AssertionError(name)


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
    assert "Those that wait and that you may decide are rejected with it" in " ".join(page.split())
    assert boss.post(url, {"reason": ""}).status_code == 422
    assert first.state == "open"
    said = boss.post(url, {"reason": "too many"}, follow=True).content.decode()
    assert "Rejected. So was another one that waited. Its calls of this tool are denied for an hour" in said
    by = Question.objects.get(pk=second.pk).decisions.get()
    assert [Task.objects.get(pk=task.id).message for task in tasks] == [
        "too many", f"Blocked by {by.actor} for an hour: too many"
    ]  # fmt: skip
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


def test_what_others_have_to_decide_waits_on_and_cannot_run(tenant: Any, sign_in: Login) -> None:
    bot, server = make_context(tenant), make_server(tenant)
    tool = make_tool(server, asks={"quorum": 2})
    made = [make_task(bot, tool, arguments={"n": n}) for n in range(3)]
    other_client, other_tool = make_task(make_context(tenant), tool), make_task(bot, make_tool(server, asks={}))
    first, second, third, *others = (
        Question.objects.get(task_id=task.id) for task in (*made, other_client, other_tool)
    )
    boss = make_person(Role.ADMIN, tenant)
    sign_in(boss).post(f"/inbox/{third.pk}/decide", {"verdict": "approve"})
    said = sign_in(boss).post(f"/inbox/{first.pk}/block", {"reason": "no"}, follow=True).content.decode()
    assert "So was another one that waited. For others to decide 1 still waits, and cannot run." in said
    states = [Question.objects.get(pk=each.pk).state for each in (first, second, third, *others)]
    assert states == ["answered", "answered", "open", "open", "open"]


def test_a_block_whose_time_is_over_leaves_the_list(tenant: Any, sign_in: Login) -> None:
    question = Question.objects.get(task_id=make_task(make_context(tenant), make_tool(make_server(tenant), asks={})).id)
    boss = make_person(Role.ADMIN, tenant)
    sign_in(boss).post(f"/inbox/{question.pk}/block", {"reason": "no"})
    block, *rest = present(tenant.pk).rules
    until = blocked_until(block)
    assert until is not None
    assert [blocked_until(rule) for rule in (*rest, replace(block, words="ours"), replace(block, when="true"))] == [
        None
    ] * (len(rest) + 2)
    worker = Actor(name="end of blocks", door=Door.WORKER)
    assert (remove_ended(worker), present(tenant.pk).rules[0]) == (0, block)
    early = until - timedelta(hours=2)
    ended = replace(
        block, when=block.when.replace(f"{until:%Y-%m-%dT%H:%M:%SZ}", f"{early:%Y-%m-%dT%H:%M:%SZ}"),
        words=until_words(early),
    )  # fmt: skip
    save_rules(tenant.pk, (ended, *rest), expected=present(tenant.pk).version, actor=worker)
    assert (remove_ended(worker), list(present(tenant.pk).rules)) == (1, rest)
    assert RuleVersion.objects.filter(tenant=tenant).latest("number").made_by == "end of blocks"
    assert remove_ended(worker) == 0


def test_a_file_of_configuration_neither_ends_a_block_nor_brings_one_back(tenant: Any, sign_in: Login) -> None:
    tool = make_tool(make_server(tenant), asks={})
    task = make_task(make_context(tenant), tool)
    question = Question.objects.get(task_id=task.id)
    shell = replace(of_shell(), tenant_id=tenant.pk)
    boss = make_person(Role.ADMIN, tenant)
    before = export_configuration(shell)
    sign_in(boss).post(f"/inbox/{question.pk}/block", {"reason": "no"})
    listed = present(tenant.pk)
    assert export_configuration(shell) == before
    assert apply_configuration(shell, before, lookup=no_secrets).changes == ()
    assert present(tenant.pk) == listed
    # Written into a file by hand, as from a list of before.
    rest = list(listed.rules[1:])
    save_rules(tenant.pk, rest, expected=listed.version, actor=shell.actor)
    text = json.dumps({"format": 1, "rules": [to_json(rule) for rule in listed.rules]})
    apply_configuration(shell, text, lookup=no_secrets)
    assert list(present(tenant.pk).rules) == rest
    # An error is about the rule as the file counts it.
    bad = [to_json(rest[0]), {**to_json(rest[0]), "name": "bad", "when": "no =="}]
    with pytest.raises(Invalid, match=r"rule 2: when"):
        apply_configuration(shell, json.dumps({"format": 1, "rules": bad}), lookup=no_secrets)
    save_rules(tenant.pk, listed.rules, expected=present(tenant.pk).version, actor=shell.actor)
    with pytest.raises(Invalid, match=r"rule 2: when"):
        apply_configuration(shell, json.dumps({"format": 1, "rules": bad}), lookup=no_secrets)
