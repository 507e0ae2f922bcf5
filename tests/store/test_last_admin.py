"""A tenant keeps an admin who may sign in, whoever changes what, and however many change it at once (TH009)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from taskhub.core.records import Person
from taskhub.store.models import Membership, Tenant
from tests.factories import make_person, make_tenant
from tests.store import raw as sql
from tests.store.raw import Raw, refused
from tests.support.hub import wait_until

LOSING = {
    "disabled": "UPDATE auth_user SET is_active = false WHERE id = %s",
    "demoted": "UPDATE membership SET role = 'viewer' WHERE user_id = %s",
    "removed": "DELETE FROM membership WHERE user_id = %s",
    "moved": "UPDATE membership SET tenant_id = (SELECT max(id) FROM tenant) WHERE user_id = %s",
}
pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def tenant() -> Tenant:
    found = make_tenant()
    make_tenant()  # where somebody could be moved to
    return found


def admins(tenant: Tenant) -> int:
    return Membership.objects.filter(tenant=tenant, role="admin", user__is_active=True).count()


@pytest.mark.parametrize("how", LOSING)
def test_the_only_admin_stays(tenant: Tenant, how: str) -> None:
    root = make_person("admin", tenant)
    make_person("viewer", tenant)
    with sql.connect() as raw, refused("TH009"):
        raw.execute(LOSING[how], [root.user_id])
    assert admins(tenant) == 1


@pytest.mark.parametrize("how", LOSING)
def test_an_admin_who_may_not_sign_in_does_not_count(tenant: Tenant, how: str) -> None:
    root, gone = make_person("admin", tenant), make_person("admin", tenant)
    with sql.connect(autocommit=True) as raw:
        raw.execute(LOSING["disabled"], [gone.user_id])
        with refused("TH009"):
            raw.execute(LOSING[how], [root.user_id])
        raw.execute(LOSING["removed"], [gone.user_id])  # no help before either


@pytest.mark.parametrize("how", LOSING)
def test_one_of_two_may_go_and_others_always(tenant: Tenant, how: str) -> None:
    one, _, other = make_person("admin", tenant), make_person("admin", tenant), make_person("operator", tenant)
    with sql.connect(autocommit=True) as raw:
        raw.execute(LOSING[how], [one.user_id])
        raw.execute(LOSING[how], [other.user_id])
    assert admins(tenant) == 1


def test_everybody_at_once_is_refused(tenant: Tenant) -> None:
    for _ in range(3):
        make_person("admin", tenant)
    with sql.connect() as raw, refused("TH009"):
        raw.execute("UPDATE auth_user SET is_active = false")
    with sql.connect() as raw, refused("TH009"):
        raw.execute("DELETE FROM membership")


def waits(pid: int) -> Callable[[], bool]:
    def look() -> bool:
        with sql.connect(autocommit=True) as other:
            row = other.execute("SELECT cardinality(pg_blocking_pids(%s))", [pid]).fetchone()
        return bool(row and row[0])

    return look


@pytest.mark.parametrize("isolation", [psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ])
@pytest.mark.parametrize("second", LOSING)
@pytest.mark.parametrize("first", LOSING)
def test_two_admins_who_lock_each_other_out_leave_one(
    tenant: Tenant, first: str, second: str, isolation: psycopg.IsolationLevel
) -> None:
    pair = make_person("admin", tenant), make_person("admin", tenant)
    ready, refusals = threading.Barrier(2), []

    def later(raw: Raw, person: Person) -> None:
        raw.execute("SELECT 1 FROM tenant")  # from here on it sees what was
        ready.wait(10)
        ready.wait(10)
        try:
            raw.execute(LOSING[second], [person.user_id])
            raw.commit()
        except psycopg.Error as error:
            refusals.append(error.sqlstate)
            raw.rollback()

    with sql.connect() as early, sql.connect() as late:
        early.isolation_level = late.isolation_level = isolation
        pid = late.info.backend_pid
        thread = threading.Thread(target=later, args=[late, pair[0]])
        thread.start()
        ready.wait(10)
        early.execute(LOSING[first], [pair[1].user_id])
        ready.wait(10)
        wait_until(waits(pid), "the second to wait for the first", 30)
        early.commit()
        thread.join(30)
    assert refusals == ["TH009" if isolation is psycopg.IsolationLevel.READ_COMMITTED else "40001"]
    assert admins(tenant) == 1
