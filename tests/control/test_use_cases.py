"""Every use case, as whoever may not do it, and as whoever may in another tenant."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from taskhub import control
from taskhub.control import (
    applications,
    asked_back,
    audit,
    blocks,
    clients,
    configuration,
    credentials,
    factors,
    people,
    questions,
    remarks,
    rules,
    servers,
    tasks,
    tries,
    webhooks,
)
from taskhub.control.caller import Caller, of_person, of_shell
from taskhub.core.errors import Forbidden, Invalid, NotFound
from taskhub.core.policy import Policy
from taskhub.core.records import Person
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.core.states import Door, QuestionKind, Role, State
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.catalogue.server_files import FileServer
from taskhub.domain.catalogue.spec import parse_spec
from taskhub.domain.clients.tokens import issue_token
from taskhub.domain.notices.webhooks import Wanted
from taskhub.domain.oauth.applications import add_application
from taskhub.domain.questions import inbox
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.tasks.ended import find_rerun
from taskhub.store.models import Event
from tests.factories import make_context, make_person, make_question, make_server, make_task, make_tenant, make_tool
from tests.support.undone import undone

pytestmark = pytest.mark.django_db

UseCase = Callable[[Caller, SimpleNamespace], Any]
ADMINS = {"admin"}


def no_secrets(kind: str, name: str) -> str:
    raise AssertionError


def rerun_mark(by: Caller, on: SimpleNamespace) -> str:
    return find_rerun(by.tenant_id, on.ended, {"text": "other"}).mark


def try_mark(by: Caller, on: SimpleNamespace) -> str:
    if by.person is None or not by.may("task.rerun"):
        return ""
    return tries.check_try(by, on.tool, {"text": "new"}).mark


HOOK = Wanted("new", "https://receiver.example/hook", ["task.failed"])
USE_CASES: dict[str, tuple[set[str], UseCase]] = {
    "tasks.cancel_task": ({"operator", "admin"}, lambda by, on: tasks.cancel_task(by, on.task)),
    "tasks.rerun_task": ({"operator", "admin"}, lambda by, on: tasks.rerun_task(by, on.ended)),
    "tasks.check_rerun": ({"operator", "admin"}, lambda by, on: tasks.check_rerun(by, on.ended, {"text": "other"})),
    "tasks.rerun_with": (
        {"operator", "admin"},
        lambda by, on: tasks.rerun_with(by, on.ended, {"text": "other"}, mark=rerun_mark(by, on)),
    ),
    "tries.tool_to_try": ({"operator", "admin"}, lambda by, on: tries.tool_to_try(by, on.tool)),
    "tries.check_try": ({"operator", "admin"}, lambda by, on: tries.check_try(by, on.tool, {"text": "new"})),
    "tries.try_tool": (
        {"operator", "admin"},
        lambda by, on: tries.try_tool(by, on.tool, {"text": "new"}, mark=try_mark(by, on), once="x" * 22),
    ),
    "questions.decide_approval": (
        {"approver", "admin"},
        lambda by, on: questions.decide_approval(by, on.approval(by), approve=True),
    ),
    "questions.decide_alike": (
        {"approver", "admin"},
        lambda by, on: questions.decide_alike(by, [on.approval(by).id], approve=True),
    ),
    "questions.undo_decisions": (
        {"approver", "admin"},
        lambda by, on: questions.undo_decisions(by, [on.approval(by).id]),
    ),
    "blocks.block_tool": (ADMINS, lambda by, on: blocks.block_tool(by, on.approval(by), reason="too many")),
    "asked_back.ask": (
        {"approver", "admin"},
        lambda by, on: asked_back.ask(by, on.approval(by), "why?"),
    ),
    "remarks.comment": (
        {"operator", "approver", "admin"},
        lambda by, on: remarks.comment(by, on.form(by), "why?"),
    ),
    "remarks.hand_over": (
        {"approver", "admin"},
        lambda by, on: remarks.hand_over(by, on.approval(by), person=on.other),
    ),
    "questions.edit_call": (
        {"approver", "admin"},
        lambda by, on: edit_call(by, on.editable(by)),
    ),
    "questions.answer_question": (
        {"operator", "approver", "admin"},
        lambda by, on: questions.answer_question(by, on.form(by), {"action": "decline"}),
    ),
    "questions.rule_outcome": (
        {"operator", "approver", "admin"},
        lambda by, on: questions.rule_outcome(by, on.lost(by), ran=True, reason="seen", text="done"),
    ),
    "clients.add_client": (
        ADMINS,
        lambda by, on: clients.add_client(by, name="new", issuer="taskhub", subject="new", client_id="new"),
    ),
    "clients.issue_token": (ADMINS, lambda by, on: clients.issue_token(by, on.client, scopes=["tasks:read"], days=1)),
    "clients.revoke_token": (ADMINS, lambda by, on: clients.revoke_token(by, on.client, on.token)),
    "clients.lock_client": (ADMINS, lambda by, on: clients.lock_client(by, on.client)),
    "clients.unlock_client": (ADMINS, lambda by, on: clients.unlock_client(by, on.client)),
    "clients.set_caller_settings": (
        ADMINS,
        lambda by, on: clients.set_caller_settings(by, on.client, patience_seconds=10, hub_tools=False),
    ),
    "servers.add_server": (ADMINS, lambda by, on: servers.add_server(by, name="new", spec="https://example.com/mcp")),
    "servers.set_server": (ADMINS, lambda by, on: servers.set_server(by, parse_spec("new=https://example.com/mcp"))),
    "servers.import_servers": (
        ADMINS,
        lambda by, on: servers.import_servers(by, [FileServer("new", "https://example.com/mcp")]),
    ),
    "servers.release_server": (ADMINS, lambda by, on: servers.release_server(by, on.own_file)),
    "servers.edit_server": (ADMINS, lambda by, on: servers.edit_server(by, on.server, ServerEdit(prefix="a_"))),
    "servers.confirm_tools": (ADMINS, lambda by, on: servers.confirm_tools(by, on.server, {on.tool: "0" * 64})),
    "servers.remove_server": (ADMINS, lambda by, on: servers.remove_server(by, on.server, confirmed=True)),
    "servers.request_test": (ADMINS, lambda by, on: servers.request_test(by, on.server)),
    "servers.server_to_test": (ADMINS, lambda by, on: servers.server_to_test(by, on.server)),
    "servers.refresh_server": (ADMINS, lambda by, on: servers.refresh_server(by, on.server)),
    "servers.try_server": (ADMINS, lambda by, on: servers.try_server(by, on.server)),
    "servers.set_server_token": (ADMINS, lambda by, on: servers.set_server_token(by, on.server, "")),
    "servers.set_server_calls": (ADMINS, lambda by, on: servers.set_server_calls(by, on.server, 3)),
    "servers.set_server_enabled": (ADMINS, lambda by, on: servers.set_server_enabled(by, on.server, enabled=False)),
    "credentials.set_oauth": (ADMINS, lambda by, on: credentials.set_oauth(by, on.server, None)),
    "credentials.register_anew": (ADMINS, lambda by, on: credentials.register_anew(by, on.server)),
    "servers.set_policy": (ADMINS, lambda by, on: servers.set_policy(by, on.tool, Policy(max_attempts=2))),
    "servers.set_policy_by_name": (
        ADMINS,
        lambda by, on: servers.set_policy_by_name(by, on.server, on.tool_name, Policy(max_attempts=2)),
    ),
    "configuration.apply_configuration": (
        ADMINS,
        lambda by, on: configuration.apply_configuration(by, "format: 1\nclients: [{name: new}]\n", lookup=no_secrets),
    ),
    "rules.save_rules": (
        ADMINS,
        lambda by, on: rules.save_rules(by, [Rule(name="new", when="", then=Then.ASK)], expected=1),
    ),
    "rules.begin_bypass": (
        ADMINS,
        lambda by, on: rules.begin_bypass(by, minutes=5, reason="Outage", server_id=on.server),
    ),
    "rules.end_bypass": (ADMINS, lambda by, on: rules.end_bypass(by, on.bypass)),
    "rules.try_rules": (ADMINS, lambda by, on: rules.try_rules(by, [Rule(name="new", when="", then=Then.ASK)])),
    "rules.try_call": (ADMINS, lambda by, on: rules.try_call(by, on.client.id, on.tool, {})),
    "rules.sample_call": (ADMINS, lambda by, on: rules.sample_call(by, on.client.id, on.tool)),
    "rules.tools_of_client": (
        {"operator", "auditor", "admin"},
        lambda by, on: rules.tools_of_client(by, on.client.id),
    ),
    "rules.clients_of_tool": (
        {"operator", "auditor", "admin"},
        lambda by, on: rules.clients_of_tool(by, on.tool),
    ),
    "factors.remove_of": (ADMINS, lambda by, on: factors.remove_of(by, on.person)),
    "people.add_person": (ADMINS, lambda by, on: people.add_person(by, username="new.one", role="viewer")),
    "people.find_person": (ADMINS, lambda by, on: people.find_person(by, on.username)),
    "people.set_role": (ADMINS, lambda by, on: people.set_role(by, on.person, "operator")),
    "people.disable_person": (ADMINS, lambda by, on: people.disable_person(by, on.person)),
    "people.enable_person": (ADMINS, lambda by, on: people.enable_person(by, on.person)),
    "people.remove_person": (ADMINS, lambda by, on: people.remove_person(by, on.person)),
    "people.set_password": (ADMINS, lambda by, on: people.set_password(by, on.person)),
    "applications.add_application": (
        ADMINS,
        lambda by, on: applications.add_application(
            by, name="new", redirects=["https://example.com/back"], confidential=False
        ),
    ),
    "applications.change_application": (
        ADMINS,
        lambda by, on: applications.change_application(
            by, on.application, name="other", redirects=["https://example.com/back"]
        ),
    ),
    "applications.renew_secret": (ADMINS, lambda by, on: applications.renew_secret(by, on.application)),
    "applications.set_application_locked": (
        ADMINS,
        lambda by, on: applications.set_application_locked(by, on.application, locked=True),
    ),
    "applications.remove_application": (ADMINS, lambda by, on: applications.remove_application(by, on.application)),
    "webhooks.add_webhook": (ADMINS, lambda by, on: webhooks.add_webhook(by, HOOK)),
    "webhooks.change_webhook": (ADMINS, lambda by, on: webhooks.change_webhook(by, on.webhook, HOOK)),
    "webhooks.set_webhook_enabled": (
        ADMINS,
        lambda by, on: webhooks.set_webhook_enabled(by, on.webhook, enabled=False),
    ),
    "webhooks.remove_webhook": (ADMINS, lambda by, on: webhooks.remove_webhook(by, on.webhook)),
    "webhooks.renew_webhook_secret": (ADMINS, lambda by, on: webhooks.renew_webhook_secret(by, on.webhook)),
    "webhooks.test_webhook": (ADMINS, lambda by, on: webhooks.test_webhook(by, on.webhook)),
    "webhooks.send_again": (ADMINS, lambda by, on: webhooks.send_again(by, on.webhook, on.message)),
    "webhooks.find_webhook": (ADMINS, lambda by, on: webhooks.find_webhook(by, on.webhook)),
    "webhooks.webhook_log": (ADMINS, lambda by, on: webhooks.webhook_log(by, on.webhook)),
    "audit.begin_export": ({"auditor", "admin"}, lambda by, on: audit.begin_export(by, form="csv", query={})),
}
OF_ONE = {
    "absences.own_absence",
    "absences.stands_in_for",
    "absences.possible_deputies",
    "absences.go_away",
    "absences.come_back",
    "applications.revoke_consent",
    "applications.revoke_own_consent",
    "credentials.authorize_for_all",
    "credentials.authorize_for_oneself",
    "credentials.authorize_for_call",
    "credentials.finish_authorization",
    "credentials.revoke_grant",
    "news.own_news",
    "news.until",
    "news.mark_read",
    "notifications.own_choices",
    "notifications.own_addresses",
    "notifications.own_messages",
    "notifications.choose",
    "notifications.begin_in",
    "notifications.set_address",
    "notifications.own_browsers",
    "notifications.add_browser",
    "notifications.remove_browser",
    "notifications.ask_again",
    "notifications.confirm_address",
    "notifications.send_trial",
    "factors.own_factor",
    "factors.confirm",
    "factors.has_confirmed",
    "factors.begin",
    "factors.begun",
    "factors.set_up",
    "factors.renew_codes",
    "factors.remove_own",
    "rules.proposals",
    "rules.proposal",
    "rules.dismiss_proposal",
    "asked_back.withdraw",
}
"""Tried where a consent is made, a grant, a factor, a question to a requester, or many approvals: tests/domain/oauth,
tests/domain/questions, and in tests/console the tests of applications' pages, of servers' OAuth, of factors and of
rules that are proposed."""
READS = {
    "webhooks.list_webhooks",
    "configuration.export_configuration",
    "applications.find_application",
    "clients.find_client",
    "rules.bypasses",
    "rules.rules",
    "rules.rule_versions",
    "rules.rule_version",
    "rules.tool_warnings",
    "rules.approver_warnings",
    "rules.rule_warnings",
    "servers.find_server",
    "questions.find_alike",
    "questions.find_question",
    "questions.find_question_of_task",
    "questions.check_ruling",
    "questions.check_edit",
    "questions.closed_to",
    "questions.undoable",
    "remarks.deciders",
    "asked_back.requester",
    "asked_back.told",
    "questions.why_not",
}
NOTHING_ELSEWHERE = {
    "clients.add_client",
    "clients.issue_token",
    "configuration.apply_configuration",
    "servers.add_server",
    "servers.set_server",
    "servers.import_servers",
    "rules.save_rules",
    "rules.try_rules",
    "people.add_person",
    "applications.add_application",
    "webhooks.add_webhook",
    "audit.begin_export",
}
"""What makes something new in the caller's own tenant."""


def edit_call(by: Caller, item: inbox.InboxItem) -> Any:
    mark = questions.check_edit(by, item, {"text": "bye"}).mark
    return questions.edit_call(by, item, {"text": "bye"}, mark=mark)


def begin(name: str, tenant: Any, there: SimpleNamespace) -> None:
    """What a use case ends, which another one begins: there is one at a time."""
    if name == "rules.end_bypass":
        shell = Caller(tenant.pk, of_shell().actor)
        there.bypass = rules.begin_bypass(shell, minutes=5, reason="Outage").id


def everything(tenant: Any) -> SimpleNamespace:
    """One of everything in the tenant, but for a bypass of the rules."""
    context, server = make_context(tenant, "ci"), make_server(tenant)
    tool = make_tool(server)
    person = make_person("viewer", tenant)
    shell = Caller(tenant.pk, of_shell().actor)
    asked = make_task(context, make_tool(server, asks={}), client_capabilities={"elicitation": {}})
    rule = Rule(name="asks", when="", then=Then.ASK, editable=("text",))
    editable = make_task(context, tool, verdict=Verdict(Then.ASK, rule, 1))
    form = make_task(context, tool, state="input_required", question=make_question(QuestionKind.ELICITATION))
    lost = make_task(context, tool, state="input_required", question=make_question(QuestionKind.OUTCOME))
    application, _ = add_application(
        tenant_id=tenant.pk,
        name="IDE",
        redirects=["https://ide.example/back"],
        confidential=True,
        actor=shell.actor,
    )
    reader = make_person("admin", tenant)
    webhook = webhooks.add_webhook(shell, Wanted("ours", HOOK.url, HOOK.kinds))[0]

    def question(task_id: int) -> Callable[[Caller], inbox.InboxItem]:
        def read(by: Caller) -> inbox.InboxItem:
            (found,) = (item for item in inbox.questions(reader, "all") if item.task_id == task_id)
            return questions.find_question(by, found.id)

        return read

    return SimpleNamespace(
        bypass=0,
        task=make_task(context, tool).public_id,
        ended=make_task(context, tool, state="finished").public_id,
        approval=question(asked.id),
        editable=question(editable.id),
        form=question(form.id),
        lost=question(lost.id),
        client=clients.find_client(shell, context.pk),
        token=issue_token(tenant_id=tenant.pk, client="ci", actor=shell.actor)[1].pk,
        server=server.pk,
        own_file=server_of_file(tenant),
        tool=tool.id,
        tool_name=tool.name,
        person=person.user_id,
        username=person.username,
        other=reader.username,
        application=application,
        webhook=webhook,
        message=webhooks.test_webhook(shell, webhook),
    )


def server_of_file(tenant: Any) -> int:
    found = make_server(tenant)
    found.by_file = True
    found.save(update_fields=["by_file"])
    return int(found.pk)


def caller(person: Person) -> Caller:
    return of_person(person, door=Door.WEB, address="192.0.2.9")


def rows() -> list[tuple[Any, ...]]:
    """Everything that a use case could change, but for what is on record about refusals."""
    found: list[tuple[Any, ...]] = []
    tables = ("task", "question", "decision", "access_token", "auth_context", "server", "tool", "membership")
    for table in (*tables, "rule_version", "bypass", "webhook", "notice"):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT t::text FROM {table} AS t ORDER BY 1")
            found += cursor.fetchall()
    found += Event.objects.exclude(action="access.denied").order_by("id").values_list("id", "action")
    return found


def test_every_use_case_is_tried_here() -> None:
    public = {
        f"{module.name}.{name}"
        for module in pkgutil.iter_modules(control.__path__)
        for name, function in vars(importlib.import_module(f"taskhub.control.{module.name}")).items()
        if inspect.isfunction(function)
        and function.__module__ == f"taskhub.control.{module.name}"
        and not name.startswith("_")
        and next(iter(inspect.signature(function).parameters), "") == "caller"
    }
    assert public == set(USE_CASES) | OF_ONE | READS


# For each module, since everything there is takes longer to make than to try one use case on it.
MODULES = sorted({name.partition(".")[0] for name in USE_CASES})


def of_module(module: str) -> list[tuple[str, set[str], UseCase]]:
    return [(name, *found) for name, found in USE_CASES.items() if name.partition(".")[0] == module]


@pytest.mark.parametrize("module", MODULES)
def test_whoever_may_not_changes_nothing_and_is_on_record(module: str) -> None:
    tenant = make_tenant()
    there = everything(tenant)
    callers = {role: caller(make_person(role, tenant)) for role in Role}
    for name, allowed, use in of_module(module):
        with undone(name):
            begin(name, tenant, there)
            before = rows()
            for role in sorted(set(Role) - allowed):
                by = callers[role]
                with pytest.raises(Forbidden, match="does not include this"):
                    use(by, there)
                assert rows() == before, role
                denial = Event.objects.filter(action="access.denied").latest("id")
                assert (denial.actor, denial.door, denial.address) == (by.actor.name, "web", "192.0.2.9")
                assert denial.after["lacking"]


@pytest.mark.parametrize("module", MODULES)
def test_whoever_may_does_it(module: str) -> None:
    tenant = make_tenant()
    there = everything(tenant)
    callers = {role: caller(make_person(role, tenant)) for role in Role}
    for name, allowed, use in of_module(module):
        for role in sorted(allowed):
            with undone((name, role)):
                begin(name, tenant, there)
                use(callers[Role(role)], there)
                assert not Event.objects.filter(action="access.denied").exists()


@pytest.mark.parametrize("module", sorted({name.partition(".")[0] for name in set(USE_CASES) - NOTHING_ELSEWHERE}))
def test_what_another_tenant_has_is_not_there(module: str) -> None:
    tenant = make_tenant()
    there = everything(tenant)
    outsider = caller(make_person("admin", make_tenant()))
    for name, _, use in of_module(module):
        if name not in NOTHING_ELSEWHERE:
            with undone(name):
                begin(name, tenant, there)
                before = rows()
                with pytest.raises(NotFound):
                    use(outsider, there)
                assert rows() == before


def test_a_question_for_a_group_is_refused_to_others_and_that_is_on_record() -> None:
    tenant = make_tenant()
    tool = make_tool(make_server(tenant), asks={"group": "ops"})
    make_task(make_context(tenant), tool)
    inside, outside = make_person("approver", tenant, groups=["ops"]), make_person("approver", tenant)
    (item,) = inbox.questions(outside, "all")
    with pytest.raises(Forbidden, match="for the group ops, and you are not in it"):
        questions.decide_approval(caller(outside), item, approve=True)
    denial = Event.objects.get(action="access.denied")
    assert (denial.actor, denial.target) == (outside.username, f"answer question {item.id} of task {item.public_id}")
    item = questions.find_question(caller(inside), item.id)
    assert questions.decide_approval(caller(inside), item, approve=True) is AnswerOutcome.ANSWERED
    late = questions.find_question(caller(inside), item.id)
    assert questions.decide_approval(caller(inside), late, approve=False) is AnswerOutcome.LATE


def test_a_rejection_needs_a_reason_and_without_one_nothing_changes() -> None:
    tenant = make_tenant()
    make_task(make_context(tenant), make_tool(make_server(tenant), asks={}))
    (item,) = inbox.questions(person := make_person("approver", tenant), "all")
    with pytest.raises(Invalid, match="Enter a reason"):
        questions.decide_approval(caller(person), item, approve=False, reason=" ")
    assert questions.find_question(caller(person), item.id).state == "open"
    assert questions.decide_approval(caller(person), item, approve=False, reason="no") is AnswerOutcome.ANSWERED


def test_the_shell_may_everything_in_its_tenant() -> None:
    shell = of_shell()
    server = servers.add_server(shell, name="files", spec="https://example.com/mcp")
    servers.set_server_enabled(shell, server, enabled=False)
    assert list(Event.objects.filter(action="server.disabled").values_list("actor", "door")) == [("manage.py", "cli")]


def test_cancelling_says_what_became_of_the_task() -> None:
    tenant = make_tenant()
    there = everything(tenant)
    operator = caller(make_person("operator", tenant))
    assert tasks.cancel_task(operator, there.task, reason="not needed") is State.CANCELLED
    assert tasks.cancel_task(operator, there.ended) is State.FINISHED
    with pytest.raises(NotFound):
        tasks.cancel_task(operator, "no\0such task")


def test_nothing_is_revoked_where_the_tasks_may_not_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    there = everything(tenant)
    admin = caller(make_person("admin", tenant))
    may = Caller.may
    monkeypatch.setattr(Caller, "may", lambda self, permission: permission != "task.cancel" and may(self, permission))
    before = rows()
    for use in (
        lambda: clients.revoke_token(admin, there.client, there.token, cancel_tasks=True),
        lambda: clients.lock_client(admin, there.client, cancel_tasks=True),
    ):
        with pytest.raises(Forbidden):
            use()
    assert rows() == before


def test_whoever_sees_servers_sees_the_rules_and_their_versions_of_this_tenant_alone() -> None:
    tenant = make_tenant()
    admin = caller(make_person("admin", tenant))
    saved = rules.save_rules(admin, [Rule(name="new", when="", then=Then.ASK)], expected=0, reason="first")
    for role in Role:
        by = caller(make_person(role, tenant))
        assert rules.rules(by) == saved
        assert [row.reason for row in rules.rule_versions(by)] == ["first"]
        assert rules.rule_version(by, 1).rules == saved.rules
    outsider = caller(make_person("viewer", make_tenant()))
    assert (rules.rules(outsider).version, rules.rule_versions(outsider)) == (0, [])
    for by, number in ((outsider, 1), (admin, 2), (admin, 0)):
        with pytest.raises(NotFound, match=f"There is no version {number} of the rules"):
            rules.rule_version(by, number)


def test_whoever_may_not_see_servers_does_not_see_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    by = caller(make_person("admin", make_tenant()))
    monkeypatch.setattr(Caller, "may", lambda self, permission: permission != "server.view")
    for use in (
        lambda: rules.rules(by),
        lambda: rules.rule_versions(by),
        lambda: rules.rule_version(by, 1),
        lambda: rules.rule_warnings(by, []),
        lambda: rules.tool_warnings(by, []),
        lambda: rules.approver_warnings(by, []),
    ):
        with pytest.raises(Forbidden):
            use()
