"""Issuing and revoking: what is stored, what is refused, what stands in the log, and whose it is."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from taskhub.core.errors import Invalid, LimitReached, NotFound
from taskhub.core.names import CALL_SCOPES
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.clients import tokens
from taskhub.domain.clients.principals import principal_of
from taskhub.domain.clients.tokens import issue_token, revoke_token, set_context_disabled
from taskhub.lib import ids
from taskhub.store.models import AccessToken, AuthContext, Event, Tenant
from tests.factories import make_context, make_tenant

pytestmark = pytest.mark.django_db
ROOT = Actor(name="root", door=Door.CLI, address="192.0.2.9", user_id=None, reason="because")


def everything_stored() -> str:
    """All rows of all tables, as text; bytes in hex."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        found = []
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


def test_of_a_token_the_database_holds_a_digest_and_ten_letters(tenant: Tenant) -> None:
    token, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    revoke_token(tenant_id=tenant.pk, token_id=row.pk, actor=ROOT)
    stored = everything_stored()
    assert row.prefix == token[:10]
    assert hashlib.sha256(token.encode()).hexdigest() in stored
    for part in (token, token[5:], token[:16], token[-16:], token.encode().hex()):
        assert part not in stored


def test_tokens_are_long_random_and_of_a_form_that_scanners_know() -> None:
    made = [ids.token() for _ in range(50)]
    assert len(set(made)) == 50
    for token in made:
        assert token.startswith("thub_")
        assert len(token) == 5 + 43  # 256 bits in base64
    assert all(len({token[place] for token in made}) > 5 for place in range(5, 47))


def test_a_token_may_call_for_ninety_days_unless_told_otherwise(tenant: Tenant) -> None:
    _, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    assert row.scopes == list(CALL_SCOPES)
    _, short = issue_token(tenant_id=tenant.pk, client="ci", scopes=["tasks:read"], days=1, actor=ROOT)
    assert short.scopes == ["tasks:read"]
    for issued, days in ((row, 90), (short, 1)):
        assert issued.expires_at is not None
        assert abs(issued.expires_at - datetime.now(UTC) - timedelta(days=days)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scopes": ["tasks:read", "tasks:all"]}, "Unknown scope tasks:all; there are: tasks:call"),
        ({"scopes": []}, "Unknown scope (none)"),
        ({"scopes": ["TASKS:READ"]}, "Unknown scope TASKS:READ"),
        ({"client": ""}, "1 to 128 characters"),
        ({"client": " \t"}, "1 to 128 characters"),
        ({"client": "x" * 129}, "1 to 128 characters"),
        ({"client": "a\0b"}, "1 to 128 characters"),
        ({"days": 0}, "1 to 3650 days, not 0"),
        ({"days": -1}, "1 to 3650 days, not -1"),
        ({"days": 3_651}, "1 to 3650 days, not 3651"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(tenant: Tenant, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        issue_token(**{"tenant_id": tenant.pk, "client": "ci", "actor": ROOT, **wrong})
    assert words in str(caught.value)
    assert (AuthContext.objects.count(), AccessToken.objects.count(), Event.objects.count()) == (0, 0, 0)


@pytest.mark.parametrize("fitting", [{"client": "x" * 128}, {"client": "ä"}, {"days": 1}, {"days": 3_650}])
def test_the_edges_of_what_may_be_are_inside(tenant: Tenant, fitting: dict[str, Any]) -> None:
    token, _ = issue_token(**{"tenant_id": tenant.pk, "client": "ci", "actor": ROOT, **fitting})
    assert principal_of(token, "") is not None


def test_a_client_holds_so_many_live_tokens_and_revoking_makes_room(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_LIVE_TOKENS", 2)
    _, first = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    with pytest.raises(LimitReached, match="ci already holds 2 live tokens"):
        issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    issue_token(tenant_id=tenant.pk, client="other", actor=ROOT)
    issue_token(tenant_id=make_tenant().pk, client="ci", actor=ROOT)
    revoke_token(tenant_id=tenant.pk, token_id=first.pk, actor=ROOT)
    assert issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)


def test_expired_tokens_take_no_room(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskhub.domain.clients.tokens.MAX_LIVE_TOKENS", 1)
    _, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    AccessToken.objects.filter(pk=row.pk).update(expires_at=row.created_at)
    issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)


def test_the_same_name_is_one_client_in_a_tenant_and_another_in_the_next(tenant: Tenant) -> None:
    mine, again, theirs = (
        issue_token(tenant_id=of.pk, client="ci", actor=ROOT)[1].context_id for of in (tenant, tenant, make_tenant())
    )
    assert mine == again
    assert mine != theirs


def test_a_client_of_another_issuer_is_not_taken_for_one_of_ours(tenant: Tenant) -> None:
    foreign = AuthContext.objects.create(
        tenant=tenant, issuer="https://idp.example", subject="ci", client_id="ci", name="ci"
    )
    _, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    assert row.context_id != foreign.pk


def test_a_revoked_token_keeps_the_moment_and_its_one_entry(tenant: Tenant) -> None:
    _, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    moments = []
    for _ in range(2):
        revoke_token(tenant_id=tenant.pk, token_id=row.pk, actor=ROOT)
        row.refresh_from_db()
        moments.append(row.revoked_at)
    assert moments[0] is not None
    assert moments[0] == moments[1]
    assert Event.objects.filter(action="token.revoked").count() == 1


def test_one_token_that_ends_leaves_the_clients_others(tenant: Tenant) -> None:
    (kept, _), (_, row) = (issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT) for _ in range(2))
    revoke_token(tenant_id=tenant.pk, token_id=row.pk, actor=ROOT)
    assert principal_of(kept, "") is not None


def test_nobody_reaches_into_another_tenant(tenant: Tenant) -> None:
    token, row = issue_token(tenant_id=tenant.pk, client="ci", actor=ROOT)
    other = make_tenant()
    told = Event.objects.count()
    with pytest.raises(NotFound, match="No such token"):
        revoke_token(tenant_id=other.pk, token_id=row.pk, actor=ROOT)
    with pytest.raises(NotFound, match="No such token"):
        revoke_token(tenant_id=tenant.pk, token_id=2**40, actor=ROOT)
    with pytest.raises(NotFound, match="No such client"):
        set_context_disabled(tenant_id=other.pk, context_id=row.context_id, disabled=True, actor=ROOT)
    assert Event.objects.count() == told
    assert principal_of(token, "") is not None


def test_what_is_done_with_tokens_and_clients_is_on_record_with_who_did_it(tenant: Tenant) -> None:
    _, row = issue_token(tenant_id=tenant.pk, client="ci", scopes=["tasks:read"], days=7, actor=ROOT)
    revoke_token(tenant_id=tenant.pk, token_id=row.pk, actor=ROOT)
    for disabled in (True, True, False, False):  # only what changes something is an entry
        set_context_disabled(tenant_id=tenant.pk, context_id=row.context_id, disabled=disabled, actor=ROOT)
    entries = list(Event.objects.filter(tenant=tenant).order_by("id"))
    assert [(entry.action, entry.after) for entry in entries] == [
        ("token.issued", {"prefix": row.prefix, "scopes": ["tasks:read"], "days": 7}),
        ("token.revoked", {"prefix": row.prefix}),
        ("client.disabled", None),
        ("client.enabled", None),
    ]
    for entry in entries:
        assert (entry.actor, entry.door, entry.address) == ("root", "cli", "192.0.2.9")
        assert (entry.target, entry.context_id) == ("ci", row.context_id)


def test_a_client_locked_out_twice_keeps_the_first_moment(tenant: Tenant) -> None:
    context = make_context(tenant)
    moments = []
    for _ in range(2):
        set_context_disabled(tenant_id=tenant.pk, context_id=context.pk, disabled=True, actor=ROOT)
        context.refresh_from_db()
        moments.append(context.disabled_at)
    assert moments[0] is not None
    assert moments[0] == moments[1]
