"""What an admin sets about how a client's plain calls wait: stored, on record, and what was learned is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.errors import Invalid, NotFound
from taskhub.core.hints import ClientStandingChanged
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.clients import patience, waiting
from taskhub.domain.clients.patience import caller_settings, learn, learned_patience
from taskhub.domain.clients.waiting import set_caller_settings
from taskhub.store.models import AuthContext, Event, Tenant
from tests.factories import make_context, make_tenant

pytestmark = pytest.mark.django_db
ROOT = Actor(name="root", door=Door.WEB, address="192.0.2.9")
PROGRAM = {"name": "Slow-Agent"}


def put(context: AuthContext, seconds: int | None, tools: bool | None = None) -> None:
    ms = None if seconds is None else seconds * 1_000
    set_caller_settings(tenant_id=context.tenant_id, context_id=context.pk, patience_ms=ms, hub_tools=tools, actor=ROOT)


def test_what_is_set_holds_for_every_program_and_is_on_record(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    context, told = make_context(tenant), []
    monkeypatch.setattr(waiting, "notify", told.append)
    put(context, 10, tools=False)
    put(context, 10, tools=False)
    found = caller_settings(context.pk)
    assert (found.patience(PROGRAM).seconds, found.patience(PROGRAM).why, found.tools) == (10, "set", False)
    event = Event.objects.get()
    assert (event.action, event.actor, event.context_id) == ("client.waiting.changed", "root", context.pk)
    assert (event.before, event.after) == (
        {"patience_ms": None, "hub_tools": None},
        {"patience_ms": 10_000, "hub_tools": False},
    )
    assert told == [ClientStandingChanged(context.pk)]


def test_patience_that_is_automatic_again_is_learned_anew(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "notify", lambda hint: None)
    context, other = make_context(tenant), make_context(tenant)
    for of in (context, other):
        learn(of.pk, PROGRAM, 5_000, certain=True)
    put(context, None, tools=True)
    assert [row.left_after_ms for row in learned_patience(context.pk)] == [5_000]
    put(context, 60)
    assert learned_patience(context.pk) != []
    put(context, None)
    assert learned_patience(context.pk) == []
    assert caller_settings(context.pk).patience(PROGRAM).why == "default"
    assert caller_settings(other.pk).patience(PROGRAM).why == "learned"


@pytest.mark.parametrize("ms", [0, 999, 3_600_001, 2**40])
def test_what_cannot_be_is_refused_and_changes_nothing(tenant: Tenant, ms: int) -> None:
    context = make_context(tenant)
    with pytest.raises(Invalid, match="From 1 to 3,600 seconds") as caught:
        set_caller_settings(tenant_id=tenant.pk, context_id=context.pk, patience_ms=ms, hub_tools=None, actor=ROOT)
    assert caught.value.data["field"] == "patience"
    assert not Event.objects.exists()


@pytest.mark.parametrize("change", [{"context_id": 2**40}, {"tenant_id": 2**40}])
def test_nobody_reaches_into_another_tenant(tenant: Tenant, change: dict[str, Any]) -> None:
    context = make_context(make_tenant())
    with pytest.raises(NotFound):
        set_caller_settings(
            **{"tenant_id": tenant.pk, "context_id": context.pk, **change},
            patience_ms=1_000,
            hub_tools=None,
            actor=ROOT,
        )
    assert caller_settings(context.pk).patience_ms is None
