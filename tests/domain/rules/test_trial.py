"""A list of rules is tried on calls of the past."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from taskhub.core.errors import Invalid
from taskhub.core.rules import Rule, Then, Verdict
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.domain.rules import trial
from taskhub.domain.rules.changes import save_rules
from taskhub.domain.rules.trial import MAX_CALLS, MAX_SIZE, Outcome, Trial
from taskhub.store.models import Tool
from tests.console.admin import ADMIN
from tests.domain.cost import statements
from tests.factories import make_context, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db

LARGE = Rule(name="Large", when="args.n > 10", then=Then.DENY)
ALL = Rule(name="All", when="", then=Then.ASK)


def try_rules(tenant_id: int, rules: list[Rule], most: int = MAX_CALLS) -> Trial:
    return trial.try_rules(tenant_id, rules, catalogue(tenant_id).tools, most=most)


def test_it_says_what_would_become_of_calls_beside_what_becomes_now() -> None:
    tenant = make_tenant()
    context, tool = make_context(tenant, "agent"), make_tool(make_server(tenant), "pay")
    make_task(make_context(make_tenant()), arguments={"n": 50})
    small, large, odd = (make_task(context, tool, arguments={"n": n}) for n in (5, 50, "50"))
    save_rules(tenant.pk, [ALL], expected=0, actor=ADMIN)
    found = try_rules(tenant.pk, [LARGE])
    assert (found.calls, found.left_out) == (3, 0)
    assert found.before == {Then.ASK: 3}
    assert found.after == {None: 1, Then.DENY: 2}
    assert [(one.public_id, one.after) for one in found.different] == [
        (odd.public_id, Outcome(Then.DENY, "Large", doubt=True)),
        (large.public_id, Outcome(Then.DENY, "Large")),
        (small.public_id, Outcome(None)),
    ]
    assert {one.before for one in found.different} == {Outcome(Then.ASK, "All")}
    assert found.different[0].tool == "pay"
    assert found.different[0].client == "agent"
    hides = Rule(name="Hides", when='client.name == "agent"', then=Then.HIDE)
    assert try_rules(tenant.pk, [hides]).after == {Then.HIDE: 3}
    assert try_rules(tenant.pk, [ALL]).different == ()
    assert try_rules(tenant.pk, [LARGE], most=2).calls == 2


def test_what_a_rule_on_trial_matches_is_counted_and_decides_nothing() -> None:
    tenant = make_tenant()
    context, tool = make_context(tenant, "agent"), make_tool(make_server(tenant), "pay")
    for n in (5, 50, 500):
        make_task(context, tool, arguments={"n": n})
    hides = Rule(name="Hides", when='client.name == "agent"', then=Then.HIDE, shadow=True)
    none = Rule(name="None", when="args.n > 1000", then=Then.DENY, shadow=True)
    off = replace(none, name="Off", enabled=False)
    found = try_rules(tenant.pk, [replace(LARGE, shadow=True), hides, none, off, ALL])
    assert found.on_trial == {"Large": 2, "Hides": 3, "None": 0}
    assert found.after == {Then.ASK: 3}
    behind = try_rules(tenant.pk, [ALL, replace(LARGE, shadow=True)])
    assert behind.on_trial == {"Large": 0}


def test_calls_that_cannot_be_tried_are_counted() -> None:
    tenant = make_tenant()
    context, tool, gone = make_context(tenant), make_tool(make_server(tenant)), make_tool(make_server(tenant))
    make_task(context, tool, arguments={"text": "".join(chr(33 + n * n % 8_000) for n in range(4 * MAX_SIZE))})
    make_task(context, gone)
    make_task(context, tool)
    Tool.objects.filter(pk=gone.id).update(enabled=False)
    forget_catalogues()
    found = try_rules(tenant.pk, [ALL])
    assert (found.calls, found.left_out) == (1, 2)


def test_calls_for_which_there_is_no_time_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    context, tool = make_context(tenant), make_tool(make_server(tenant))
    for _ in range(5):
        make_task(context, tool)
    moments = iter([0.0, 0.1, 0.2, 0.9, 1.1])
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    found = try_rules(tenant.pk, [ALL])
    assert (found.calls, found.left_out, found.late) == (3, 0, 2)
    assert found.after == {Then.ASK: 3}


def test_the_scopes_of_a_call_are_known_where_rules_were_in_force() -> None:
    tenant = make_tenant()
    context, tool = make_context(tenant), make_tool(make_server(tenant))
    make_task(context, tool)
    for scopes in ({"tasks:call"}, {"tasks:call", "tasks:read"}):
        make_task(context, tool, verdict=Verdict(Then.ALLOW, version=1, scopes=frozenset(scopes)))
    reads = Rule(name="Reads", when="'tasks:read' in client.scopes", then=Then.DENY)
    found = try_rules(tenant.pk, [reads])
    assert found.after == {None: 1, Then.DENY: 2}
    assert [one.after.doubt for one in found.different] == [False, True]


def test_a_list_that_cannot_be_saved_cannot_be_tried() -> None:
    with pytest.raises(Invalid) as caught:
        try_rules(make_tenant().pk, [ALL, Rule(name="Odd", when="nobody", then=Then.ASK)])
    assert caught.value.data["field"] == "rules.1.when"


def test_it_costs_as_many_statements_for_thirty_calls_as_for_one() -> None:
    tenant = make_tenant()
    context, server = make_context(tenant), make_server(tenant)
    costs = []
    for calls in (1, 29):
        for _ in range(calls):
            make_task(context, make_tool(server))
        forget_catalogues()
        costs.append(statements(lambda: try_rules(tenant.pk, [ALL])))
    assert costs[0] == costs[1] <= 8
