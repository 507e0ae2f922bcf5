"""From a token to a principal, and how long this process believes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import RequestFactory
from django.utils import timezone

from taskhub.api.auth import Unauthorized, authenticate
from taskhub.core.names import CALL_SCOPES
from taskhub.core.records import Actor, Principal
from taskhub.core.states import Door
from taskhub.domain.clients import principals
from taskhub.domain.clients.principals import (
    anonymous_principal,
    cached_principal,
    default_tenant,
    forget_principals,
    person_of,
    principal_of,
)
from taskhub.domain.clients.tokens import issue_token, revoke_token, set_context_disabled
from taskhub.lib import ids
from taskhub.lib.lanes import Lanes
from taskhub.store import room
from taskhub.store.models import AccessToken, AuthContext, Membership, Tenant
from tests.domain import kit
from tests.domain.kit import wait_until
from tests.factories import make_person, make_tenant, make_user

ROOT = Actor(name="root", door=Door.CLI)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


def issued(tenant: Tenant, client: str = "ci", **more: Any) -> tuple[str, AccessToken]:
    return issue_token(tenant_id=tenant.pk, client=client, actor=ROOT, **more)


def change(row: AccessToken, **columns: Any) -> None:
    AccessToken.objects.filter(pk=row.pk).update(**columns)


# --- who a token speaks for


def test_a_token_speaks_for_its_client_in_its_tenant_with_its_scopes(tenant: Tenant) -> None:
    token, row = issued(tenant, scopes=["tasks:read", "tasks:cancel"])
    context = AuthContext.objects.get(pk=row.context_id)
    assert principal_of(token, "192.0.2.1") == Principal(
        tenant_id=tenant.pk,
        context_id=context.pk,
        name="ci",
        issuer="taskhub",
        subject="ci",
        client_id="ci",
        scopes=frozenset({"tasks:read", "tasks:cancel"}),
        anonymous=False,
        expires_at=row.expires_at,
        token_id=row.pk,
    )


def test_tokens_of_two_tenants_never_meet(tenant: Tenant) -> None:
    mine, theirs = (principal_of(issued(of)[0], "") for of in (tenant, make_tenant()))
    assert mine is not None
    assert theirs is not None
    assert mine.name == theirs.name
    assert (mine.tenant_id, mine.context_id) != (theirs.tenant_id, theirs.context_id)
    assert mine.tenant_id == tenant.pk


NO_GOOD: dict[str, Callable[[AccessToken], None]] = {
    "revoked": lambda row: revoke_token(tenant_id=row.context.tenant_id, token_id=row.pk, actor=ROOT),
    "expired": lambda row: change(row, expires_at=timezone.now() - timedelta(milliseconds=1)),
    "of a client locked out": lambda row: set_context_disabled(
        tenant_id=row.context.tenant_id, context_id=row.context_id, disabled=True, actor=ROOT
    ),
    "deleted": lambda row: AccessToken.objects.filter(pk=row.pk).delete() and None,
}


@pytest.mark.parametrize("how", NO_GOOD)
def test_a_token_that_is_no_good_gives_nobody_and_leaves_no_mark(tenant: Tenant, how: str) -> None:
    token, row = issued(tenant)
    other, _ = issued(tenant, "bystander")
    NO_GOOD[how](row)
    assert principal_of(token, "192.0.2.66") is None
    assert cached_principal(token) is None
    assert not AccessToken.objects.filter(last_used_at__isnull=False).exists()
    assert principal_of(other, "") is not None


@pytest.mark.parametrize("spoil", [lambda t: t[:-1], lambda t: t + "A", str.lower, lambda t: t[:10], lambda t: ""])
def test_a_token_is_good_to_the_letter_or_not_at_all(tenant: Tenant, spoil: Callable[[str], str]) -> None:
    token, _ = issued(tenant)
    assert spoil(token) != token
    assert principal_of(spoil(token), "") is None


def test_what_the_database_stores_of_a_token_opens_nothing(tenant: Tenant) -> None:
    token, row = issued(tenant)
    stored = bytes(row.digest)
    for stolen in (stored.hex(), stored.decode("latin-1"), row.prefix):
        assert principal_of(stolen, "") is None
    assert stored == ids.digest(token)


def test_a_token_without_an_end_stays_good(tenant: Tenant) -> None:
    token, row = issued(tenant)
    change(row, expires_at=None)
    principal = principal_of(token, "")
    assert principal is not None
    assert principal.expires_at is None
    assert cached_principal(token) == principal


def test_a_client_let_in_again_has_its_old_tokens_back(tenant: Tenant) -> None:
    token, row = issued(tenant)
    for disabled in (True, False):
        set_context_disabled(tenant_id=tenant.pk, context_id=row.context_id, disabled=disabled, actor=ROOT)
        assert (principal_of(token, "") is None) is disabled


# --- how long it is believed


def test_a_principal_is_remembered_without_a_look_at_the_database(
    tenant: Tenant, django_assert_num_queries: Any
) -> None:
    token, _ = issued(tenant)
    principal = principal_of(token, "")
    with django_assert_num_queries(0):
        assert cached_principal(token) is principal
        assert cached_principal(token[:-1]) is None


def test_it_is_remembered_for_thirty_seconds_and_no_longer(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert principals._kept.seconds == principals.CACHE_SECONDS == 30.0
    monkeypatch.setattr(principals._kept, "seconds", 0.05)
    token, _ = issued(tenant)
    principal_of(token, "")
    assert cached_principal(token) is not None
    wait_until(lambda: cached_principal(token) is None)
    assert principal_of(token, "") is not None


def test_a_token_that_expires_while_it_is_remembered_is_no_good_from_that_moment(tenant: Tenant) -> None:
    token, row = issued(tenant)
    end = datetime.now(UTC) + timedelta(seconds=0.3)
    change(row, expires_at=end)
    assert principal_of(token, "") is not None
    assert cached_principal(token) is not None or datetime.now(UTC) >= end
    wait_until(lambda: cached_principal(token) is None)
    assert datetime.now(UTC) >= end
    assert principal_of(token, "") is None


def test_forgetting_is_what_makes_a_revocation_count_at_once(tenant: Tenant) -> None:
    """What the hint of a revocation does in every process; tests/push shows that it arrives."""
    token, row = issued(tenant)
    kept, _ = issued(tenant, "bystander")
    principal_of(token, "")
    revoke_token(tenant_id=tenant.pk, token_id=row.pk, actor=ROOT)
    assert cached_principal(token) is not None
    forget_principals()
    assert cached_principal(token) is None
    assert principal_of(token, "") is None
    assert principal_of(kept, "") is not None


def test_tokens_made_up_by_strangers_are_not_remembered(tenant: Tenant) -> None:
    token, _ = issued(tenant)
    principal_of(token, "")
    for _ in range(100):
        principal_of(ids.token(), "")
    assert len(principals._kept) == 1


# --- the mark of use


def last_use(row: AccessToken) -> tuple[datetime | None, str]:
    row.refresh_from_db()
    return row.last_used_at, row.last_address


def test_the_first_use_leaves_when_and_from_where(tenant: Tenant) -> None:
    token, row = issued(tenant)
    assert last_use(row) == (None, "")
    principal_of(token, "2001:db8::7")
    at, address = last_use(row)
    assert at is not None
    assert abs(timezone.now() - at) < timedelta(seconds=10)
    assert address == "2001:db8::7"


def test_an_address_longer_than_any_does_not_lock_its_sender_out(tenant: Tenant) -> None:
    token, row = issued(tenant)
    assert principal_of(token, "a" * 500) is not None
    assert last_use(row)[1] == "a" * 64


def close_my_connection() -> None:
    connection.close()  # each thread has its own behind this name


@contextmanager
def lane() -> Iterator[Lanes]:
    """One lane, whose connection is closed in the end."""
    lanes = Lanes(1, name="lane-of-a-test", at_exit=close_my_connection)
    try:
        yield lanes
    finally:
        lanes.close()


def ask(lanes: Lanes, token: str, address: str) -> Principal:
    """As the endpoint asks for every request."""
    request = RequestFactory().post("/mcp", REMOTE_ADDR=address)
    return asyncio.run(authenticate(f"Bearer {token}", request=request, lanes=lanes, anonymous=False))


def test_requests_within_the_thirty_seconds_write_one_mark_together(transactional_db: None) -> None:
    token, row = issued(make_tenant())
    with lane() as lanes:
        first = ask(lanes, token, "192.0.2.1")
        mark = last_use(row)
        for n in range(2, 20):
            assert ask(lanes, token, f"192.0.2.{n}") is first
        assert last_use(row) == mark
        forget_principals()
        assert ask(lanes, token, "192.0.2.99") == first
        later = last_use(row)
    assert mark[0] is not None
    assert later[0] is not None
    assert later[0] > mark[0]
    assert later[1] == "192.0.2.99"


def test_a_revoked_token_is_refused_in_the_very_process_that_heard_of_it(transactional_db: None) -> None:
    tenant = make_tenant()
    token, row = issued(tenant)
    with lane() as lanes:
        ask(lanes, token, "")
        revoke_token(tenant_id=tenant.pk, token_id=row.pk, actor=ROOT)
        forget_principals()
        with pytest.raises(Unauthorized) as caught:
            ask(lanes, token, "")
    assert caught.value.error == "invalid_token"


def test_many_callers_of_one_token_at_once_all_become_the_same_principal(transactional_db: None) -> None:
    token, _ = issued(make_tenant())
    start, found = threading.Barrier(4), list[Principal | None]()

    def call() -> None:
        start.wait(5)
        found.append(principal_of(token, ""))
        connection.close()

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(found) == 4
    assert found[0] is not None
    assert found.count(found[0]) == 4


def test_a_token_revoked_while_it_was_being_read_is_not_remembered(transactional_db: None) -> None:
    token, row = issued(make_tenant())
    read = threading.Event()

    def call() -> None:
        principal_of(token, "")
        read.set()
        connection.close()

    with transaction.atomic():
        AccessToken.objects.select_for_update().get(pk=row.pk)
        thread = threading.Thread(target=call)
        thread.start()
        wait_until(lambda: kit.count_rows("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0)
        forget_principals()  # the hint of the revocation arrives first
    thread.join(5)
    assert read.is_set()
    assert cached_principal(token) is None


# --- callers without a token, and people


def test_locked_out_callers_without_a_token_are_refused(transactional_db: None) -> None:
    def call(lanes: Lanes) -> Principal:
        return asyncio.run(authenticate(None, request=RequestFactory().post("/mcp"), lanes=lanes, anonymous=True))

    with lane() as lanes:
        found = call(lanes)
        set_context_disabled(tenant_id=found.tenant_id, context_id=found.context_id, disabled=True, actor=ROOT)
        forget_principals()
        with pytest.raises(Unauthorized):
            call(lanes)
        set_context_disabled(tenant_id=found.tenant_id, context_id=found.context_id, disabled=False, actor=ROOT)
        assert call(lanes) == found


def test_callers_without_a_token_are_one_and_the_same_and_may_call(db: None) -> None:
    first, again = anonymous_principal(), anonymous_principal()
    assert first == again
    assert first is not None
    assert first.anonymous
    assert first.scopes == set(CALL_SCOPES)
    assert first.token_id is None
    assert first.tenant_id == default_tenant().pk
    assert AuthContext.objects.count() == 1


def test_there_is_one_default_tenant_however_often_it_is_asked_for(db: None) -> None:
    other = make_tenant("zzz")
    assert default_tenant() == default_tenant() != other
    assert default_tenant().slug == "main"


def test_a_user_is_a_person_by_membership_and_its_role_counts_at_once(db: None) -> None:
    tenant = make_tenant()
    mia = make_person("viewer", tenant, username="mia", groups=["ops", "db"])
    assert (mia.role, mia.tenant_id, mia.groups) == ("viewer", tenant.pk, frozenset({"ops", "db"}))
    Membership.objects.filter(user_id=mia.user_id).update(role="auditor", groups=["audit"])
    now = person_of(mia.user_id, "mia")
    assert now is not None
    assert (now.role, now.groups) == ("auditor", frozenset({"audit"}))
    Membership.objects.filter(user_id=mia.user_id).delete()
    assert person_of(mia.user_id, "mia") is None


def test_a_user_without_a_membership_is_nobody_here(db: None) -> None:
    user = make_user()
    make_person("admin")
    assert person_of(user.pk, user.username) is None
    assert person_of(2**31 - 1, "ghost") is None


def test_a_token_is_good_where_the_database_only_reads(transactional_db: None) -> None:
    token, _ = issued(make_tenant(), scopes=["tasks:read"])
    with only_reading():
        found = principal_of(token, "")
    assert found is not None
    assert (found.name, found.scopes) == ("ci", frozenset({"tasks:read"}))
    with only_reading():
        assert principal_of("thb_" + "x" * 40, "") is None


@contextmanager
def only_reading() -> Iterator[None]:
    """This connection takes nothing that is written."""
    forget_principals()
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    try:
        yield
    finally:
        connection.close()
        room.note_writes()
