"""Running a call again with other arguments."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from taskhub.core.records import TaskRecord
from taskhub.core.rules import Rule, Then
from taskhub.core.states import Role, State
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks.reads import task_by_id
from taskhub.store.models import Event, Task, Tenant, Tool
from tests.console.admin import ADMIN, words
from tests.console.conftest import Login
from tests.console.test_editing_page import SCHEMA, SENT, posted
from tests.domain import kit
from tests.factories import make_context, make_person, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(tenant: Tenant) -> TaskRecord:
    made = make_tool(make_server(tenant, "ops"), "deploy")
    Tool.objects.update(definition={"name": "deploy", "inputSchema": SCHEMA})
    tool = tool_by_id(made.id)
    assert tool is not None
    return make_task(make_context(tenant, "ci-bot"), tool, arguments=SENT, state="faulted")


@pytest.fixture
def operator(sign_in: Login, tenant: Tenant) -> Client:
    return sign_in(make_person(Role.OPERATOR, tenant))


def form_of(page: str) -> dict[str, str]:
    """What a browser would post of the page's form."""
    return posted(page.replace('<form class="form" method="post"', '<form id="decision" method="post"', 1))


def change(client: Client, task: TaskRecord, **fields: str) -> tuple[Any, dict[str, str]]:
    """The answer to the first POST, and what its form posts."""
    where = f"/tasks/{task.public_id}/rerun/arguments"
    shown = client.post(where, {**form_of(client.get(where).content.decode()), **fields})
    return shown, form_of(shown.content.decode())


def rules(tenant: Tenant, *listed: Rule) -> None:
    save_rules(tenant.pk, list(listed), expected=present(tenant.pk).version, actor=ADMIN)


def test_the_difference_comes_first_and_the_new_task_then(operator: Client, task: TaskRecord) -> None:
    where = f"/tasks/{task.public_id}/rerun/arguments"
    assert f'href="{where}"' in operator.get(f"/tasks/{task.public_id}/rerun").content.decode()
    shown, confirm = change(operator, task, f0="staging", reason="typo")
    text = words(shown.content.decode())
    assert "Run it like this? Argument Ran with Will run env prod staging" in text
    assert "No rule matches: it runs without an approval." in text
    assert Task.objects.count() == 1
    back = form_of(operator.post(where, {**confirm, "back": "1"}).content.decode())
    assert (back["f0"], back["reason"]) == ("staging", "typo")
    done = operator.post(where, confirm, follow=True)
    new = Task.objects.get(rerun_of_id=task.id)
    assert done.redirect_chain[-1][0] == f"/tasks/{new.public_id}/"
    claim = kit.claim_one()
    assert (claim.task_id, claim.arguments) == (new.pk, {**SENT, "env": "staging"})
    made = Event.objects.get(task_id=new.pk, action="task.created")
    assert made.reason == f"re-run of {task.public_id} with other arguments: typo"
    old = task_by_id(task.id)
    assert old is not None
    assert old.state is State.FAULTED


def test_what_the_rules_say_of_the_changed_call_is_shown_and_done(
    operator: Client, task: TaskRecord, tenant: Tenant
) -> None:
    ask = Rule(name="Staging", when='args.env == "staging"', then=Then.ASK, group="ops", not_requester=True)
    rules(tenant, ask)
    shown, confirm = change(operator, task, f0="staging")
    assert "It waits until 1 of ops approves it, but not whoever made the call." in words(shown.content.decode())
    operator.post(f"/tasks/{task.public_id}/rerun/arguments", confirm)
    assert Task.objects.get(rerun_of_id=task.id).state == State.INPUT_REQUIRED
    rules(tenant, Rule(name="Freeze", when='args.env == "staging"', then=Then.DENY, words="Not this week."))
    refused, _ = change(operator, task, f0="staging")
    assert refused.status_code == 422
    assert "By the rules, the call with these arguments is denied" in words(refused.content.decode())
    assert Task.objects.count() == 2


def test_a_call_that_a_rule_denies_can_run_with_other_arguments(
    operator: Client, task: TaskRecord, tenant: Tenant
) -> None:
    rules(tenant, Rule(name="Freeze", when='args.env == "prod"', then=Then.DENY, words="Not this week."))
    _, confirm = change(operator, task, f0="staging")
    operator.post(f"/tasks/{task.public_id}/rerun/arguments", confirm)
    assert Task.objects.get(rerun_of_id=task.id).arguments["env"] == "staging"


def test_what_changed_since_it_was_shown_is_shown_again(operator: Client, task: TaskRecord, tenant: Tenant) -> None:
    _, confirm = change(operator, task, f0="staging")
    rules(tenant, Rule(name="Staging", when='args.env == "staging"', then=Then.ASK))
    shown = operator.post(f"/tasks/{task.public_id}/rerun/arguments", confirm)
    assert "It waits until 1 of the approvers approves it" in words(shown.content.decode())
    assert Task.objects.count() == 1
    operator.post(f"/tasks/{task.public_id}/rerun/arguments", form_of(shown.content.decode()))
    assert Task.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "Nothing is changed."),
        ({"f0": ""}, "Environment is required."),
        ({"f1": "10"}, "count must be at most 9."),
        ({"f4": "[1]"}, "The arguments do not fit the tool’s schema"),
    ],
)
def test_wrong_arguments_are_told_and_run_nothing(
    operator: Client, task: TaskRecord, fields: dict[str, str], told: str
) -> None:
    shown, _ = change(operator, task, **fields)
    assert shown.status_code == 422
    assert told in words(shown.content.decode())
    assert Task.objects.count() == 1


def test_a_call_that_cannot_run_again_is_refused_in_words(
    operator: Client, task: TaskRecord, tenant: Tenant, sign_in: Login
) -> None:
    live = make_task(make_context(tenant), state="queued")
    page = operator.get(f"/tasks/{live.public_id}/rerun/arguments", follow=True).content.decode()
    assert "is still queued" in page
    big = make_task(make_context(tenant), arguments={"text": "x" * 70_000}, state="finished")
    page = operator.get(f"/tasks/{big.public_id}/rerun/arguments", follow=True).content.decode()
    assert "Arguments of more than 65,536 bytes cannot be edited here." in page
    stranger = sign_in(make_person(Role.OPERATOR))
    assert stranger.get(f"/tasks/{task.public_id}/rerun/arguments").status_code == 404
