"""What the pages of clients and applications count, of whom, and what of it is of now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from oauth2_provider.models import get_access_token_model

from taskhub.core.names import OAUTH_ISSUER, TASKS_EXTENSION
from taskhub.core.records import Person
from taskhub.domain.clients import reads as clients
from taskhub.domain.clients.reads import ClientRow, client_detail, client_page, client_tokens
from taskhub.domain.clients.tokens import issue_token
from taskhub.domain.oauth.reads import (
    allowed_rows,
    application_detail,
    application_of_client,
    application_rows,
    consent_rows,
)
from taskhub.store.models import AccessToken, Application, AuthContext, Consent, Task, Tenant
from tests.console.admin import ADMIN, browser
from tests.domain.cost import make_old
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool
from tests.support.oauth import Program, make_application

pytestmark = pytest.mark.django_db
SignedIn = get_access_token_model()


def detail(context: AuthContext) -> ClientRow:
    found = client_detail(context.tenant_id, context.pk)
    assert found is not None
    return found


def test_of_a_clients_tokens_those_live_are_told_apart_and_the_last_used_says_from_where() -> None:
    tenant, now = make_tenant(), timezone.now()
    rows = [issue_token(tenant_id=tenant.pk, client="ci", actor=ADMIN)[1] for _ in range(4)]
    live, expired, revoked, endless = rows
    context = AuthContext.objects.get(pk=live.context_id)
    kept = AccessToken.objects
    kept.filter(pk=live.pk).update(last_used_at=now - timedelta(hours=3), last_address="192.0.2.3")
    ended = {"expires_at": now - timedelta(hours=1), "last_used_at": now - timedelta(hours=2)}
    kept.filter(pk=expired.pk).update(**ended, last_address="192.0.2.2")
    kept.filter(pk=revoked.pk).update(revoked_at=now)
    kept.filter(pk=endless.pk).update(expires_at=None)
    found = detail(context)
    assert (found.live_tokens, found.tokens) == (2, 4)
    assert (found.last_used_at, found.last_address) == (now - timedelta(hours=2), "192.0.2.2")
    listed = client_tokens(tenant.pk, context.pk)
    assert [token.id for token in listed] == [live.pk, expired.pk, endless.pk, revoked.pk]
    assert client_tokens(make_tenant().pk, context.pk) == ()
    AuthContext.objects.filter(pk=context.pk).update(last_seen_at=now - timedelta(hours=1))
    assert detail(context).last_used_at == now - timedelta(hours=1)
    assert detail(context).last_used_at != make_task(context).created_at
    assert detail(context).last_used_at == Task.objects.get().created_at


def test_a_client_of_another_tenant_is_not_shown() -> None:
    context = make_context(make_tenant())
    assert client_detail(make_tenant().pk, context.pk) is None
    assert client_detail(context.tenant_id, context.pk + 1) is None


def test_tasks_are_counted_by_client_of_the_last_30_days_and_while_they_live() -> None:
    context = make_context(make_tenant())
    tool = make_tool(make_server(context.tenant))
    make_task(make_context(context.tenant), tool)
    old, young, _ = (make_task(context, tool, state=state) for state in ("finished", "finished", "queued"))
    make_old({old.id: timedelta(days=30, minutes=1), young.id: timedelta(days=29, hours=23)})
    found = detail(context)
    assert (found.tasks_30_days, found.live_tasks) == (2, 1)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({}, (False, False, False)),
        ({"elicitation": {}}, (False, True, False)),
        ({"sampling": {}}, (False, False, True)),
        ({"extensions": {TASKS_EXTENSION: {}}}, (True, False, False)),
    ],
)
def test_a_session_declares_as_well_as_a_call(declared: dict[str, Any], says: tuple[bool, ...]) -> None:
    tenant = make_tenant()
    agreed, called = make_context(tenant), make_context(tenant)
    AuthContext.objects.filter(pk=agreed.pk).update(client_capabilities=declared)
    make_task(called, client_capabilities=declared)
    for context, seen in ((agreed, bool(declared)), (called, True)):
        found = detail(context)
        assert (found.declares_tasks, found.declares_elicitation, found.declares_sampling) == says
        assert found.seen is seen


def test_the_newest_calls_say_who_a_client_is_and_older_ones_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clients._LOOKS, "looked_at", 2)
    context = make_context(make_tenant())
    tool = make_tool(make_server(context.tenant))
    make_task(context, tool, client_info={"name": "one"}, client_capabilities={"sampling": {}})
    make_task(context, tool, client_info={"name": "two"}, revision="2025-11-25")
    assert (detail(context).sdk, detail(context).declares_sampling) == ("two", True)
    make_task(context, tool)
    found = detail(context)
    assert (found.sdk, found.revision, found.declares_sampling) == ("two", "2026-07-28", False)
    AuthContext.objects.filter(pk=context.pk).update(client_info={"name": "agreed"})
    assert detail(context).sdk == "agreed"


def test_clients_are_listed_by_name_and_go_on_after_the_last() -> None:
    tenant = make_tenant()
    make_context(make_tenant(), "abe")
    made = [make_context(tenant, name) for name in ("bob", "Abe", "cy")]
    AuthContext.objects.create(tenant=tenant, issuer="https://b.example", subject="bob", client_id="x", name="bob")
    first = client_page(tenant.pk, limit=2)
    assert ([row.name for row in first.rows], first.after) == (["Abe", "bob"], made[0].pk)
    second = client_page(tenant.pk, after=first.after, limit=2)
    assert ([row.issuer for row in second.rows], second.after) == (["https://b.example", "taskhub"], None)
    AuthContext.objects.filter(pk=made[2].pk).update(disabled_at=timezone.now())
    assert [row.name for row in client_page(tenant.pk, state="disabled").rows] == ["cy"]
    assert [row.name for row in client_page(tenant.pk, state="active").rows] == ["Abe", "bob", "bob"]
    assert [row.name for row in client_page(tenant.pk, text="B.EXAMPLE").rows] == ["bob"]


# --- what people signed in


@dataclass(frozen=True)
class SignIns:
    """Ada signed in two applications, Bob the first of them."""

    tenant: Tenant
    first: Application
    second: Application
    ada: Person
    bob: Person

    def context(self, person: Person, application: Application) -> AuthContext:
        return AuthContext.objects.get(
            issuer=OAUTH_ISSUER,
            subject=f"user:{person.user_id}",
            client_id=application.registration.client_id,
        )

    def expire(self, person: Person, application: Application) -> None:
        SignedIn.objects.filter(user_id=person.user_id, application_id=application.registration_id).update(
            expires=timezone.now() - timedelta(seconds=1)
        )


@pytest.fixture
def signed_in() -> SignIns:
    tenant = make_tenant()
    first, second = (make_application(tenant, name)[0] for name in ("first", "Second"))
    ada, bob = (make_person("operator", tenant, username=name) for name in ("ada", "bob"))
    for person, application in ((bob, first), (ada, second), (ada, first)):
        Program.of(browser(person), application).sign_in()
    return SignIns(tenant, first, second, ada, bob)


def test_a_client_has_the_tokens_of_its_own_person_and_application(signed_in: SignIns) -> None:
    mine = signed_in.context(signed_in.ada, signed_in.first)
    AuthContext.objects.create(
        tenant=signed_in.tenant,
        issuer="https://login.example",
        subject=mine.subject,
        client_id=mine.client_id,
        name="stranger",
    )
    stranger = AuthContext.objects.get(name="stranger")
    assert (detail(mine).live_tokens, detail(mine).tokens) == (1, 1)
    assert (detail(stranger).live_tokens, detail(stranger).tokens) == (0, 0)
    signed_in.expire(signed_in.ada, signed_in.first)
    assert (detail(mine).live_tokens, detail(mine).tokens) == (0, 0)
    assert detail(signed_in.context(signed_in.bob, signed_in.first)).live_tokens == 1
    assert detail(signed_in.context(signed_in.ada, signed_in.second)).live_tokens == 1


def test_an_application_counts_its_people_and_what_they_still_allow(signed_in: SignIns) -> None:
    tenant, first, second = signed_in.tenant.pk, signed_in.first, signed_in.second

    def counted() -> list[tuple[str, int, int]]:
        return [(row.name, row.people, row.live_tokens) for row in application_rows(tenant)]

    assert counted() == [("first", 2, 2), ("Second", 1, 1)]
    signed_in.expire(signed_in.ada, first)
    assert counted() == [("first", 2, 1), ("Second", 1, 1)]
    Consent.objects.get(user_id=signed_in.bob.user_id).delete()
    assert counted() == [("first", 1, 0), ("Second", 1, 1)]
    assert application_rows(make_tenant().pk) == ()
    for found in (application_detail(tenant, second.pk), application_of_client(tenant, second.registration.client_id)):
        assert found is not None
        assert found.id == second.pk
    assert application_detail(tenant, second.pk + 1) is None


def test_an_application_was_used_when_the_last_of_its_own_clients_was_heard(signed_in: SignIns) -> None:
    now = timezone.now()
    heard = {
        signed_in.context(signed_in.ada, signed_in.first).pk: now - timedelta(hours=3),
        signed_in.context(signed_in.bob, signed_in.first).pk: now - timedelta(hours=2),
        signed_in.context(signed_in.ada, signed_in.second).pk: now - timedelta(hours=1),
    }
    client_id = signed_in.first.registration.client_id
    for tenant, issuer in ((signed_in.tenant, "https://login.example"), (make_tenant(), OAUTH_ISSUER)):
        of_others = AuthContext.objects.create(tenant=tenant, issuer=issuer, subject="s", client_id=client_id, name="s")
        heard[of_others.pk] = now
    for pk, at in heard.items():
        AuthContext.objects.filter(pk=pk).update(last_seen_at=at)
    used = {row.name: row.last_used_at for row in application_rows(signed_in.tenant.pk)}
    assert used == {"first": now - timedelta(hours=2), "Second": now - timedelta(hours=1)}


def test_of_an_application_each_person_has_their_own_tokens_and_client(signed_in: SignIns) -> None:
    tenant, first = signed_in.tenant.pk, signed_in.first
    contexts = [signed_in.context(person, first).pk for person in (signed_in.ada, signed_in.bob)]

    def listed(**only: Any) -> list[tuple[str, str | None, int, int | None]]:
        rows = consent_rows(tenant, first.pk, **only)
        return [(row.username, row.role, row.live_tokens, row.context) for row in rows]

    assert listed() == [("ada", "operator", 1, contexts[0]), ("bob", "operator", 1, contexts[1])]
    assert listed(context_id=contexts[1]) == [("bob", "operator", 1, contexts[1])]
    signed_in.expire(signed_in.bob, first)
    assert [live for _, _, live, _ in listed()] == [1, 0]
    assert consent_rows(make_tenant().pk, first.pk) == ()


def test_a_person_sees_what_they_themselves_allow_the_latest_answer_first(signed_in: SignIns) -> None:
    tenant, ada, now = signed_in.tenant.pk, signed_in.ada, timezone.now()
    heard = signed_in.context(ada, signed_in.second)
    AuthContext.objects.filter(pk=heard.pk).update(last_seen_at=now)
    signed_in.expire(ada, signed_in.first)
    assert [(row.name, row.live_tokens) for row in allowed_rows(tenant, ada.user_id)] == [("first", 0), ("Second", 1)]
    Consent.objects.filter(user_id=ada.user_id, application=signed_in.second).update(
        updated_at=now + timedelta(minutes=1)
    )
    found = allowed_rows(tenant, ada.user_id)
    assert [(row.name, row.last_used_at) for row in found] == [("Second", now), ("first", found[1].last_used_at)]
    assert found[1].last_used_at != now
    assert [row.name for row in allowed_rows(tenant, signed_in.bob.user_id)] == ["first"]
    assert allowed_rows(make_tenant().pk, ada.user_id) == ()
