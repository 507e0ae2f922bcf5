"""A permit changes once, when it is redeemed in its time, whatever program asks; what is only decided never runs."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import psycopg
import pytest

from taskhub.core.states import State
from tests.store import raw as sql
from tests.store.raw import Raw, refused, violates

REDEEM = "UPDATE permit SET redeemed_at = clock_timestamp() WHERE id = %s"


def add(raw: Raw, *, since: float = 0, lasts: float = 60, **values: Any) -> int:
    """A permit that was issued `since` seconds ago."""
    of = sql.owner(raw)
    given = {
        "public_id": secrets.token_urlsafe(24),
        "tenant_id": of.tenant,
        "context_id": of.context,
        "tool_id": of.tool,
        "arguments_digest": bytes(32),
        "tool_digest": bytes(32),
        "rules_version": 1,
        "asked": True,
    }
    begins, ends = raw.execute(
        "SELECT clock_timestamp() - make_interval(secs => %s), clock_timestamp() + make_interval(secs => %s)",
        (since, lasts - since),
    ).fetchone() or (None, None)
    return sql.insert(raw, "permit", **{**given, "issued_at": begins, "expires_at": ends, **values})


def test_it_is_redeemed_once_by_the_clock_of_the_database(raw: Raw) -> None:
    made = add(raw)
    raw.execute("UPDATE permit SET redeemed_at = '2001-01-01' WHERE id = %s", (made,))
    assert raw.execute(
        "SELECT redeemed_at BETWEEN issued_at AND clock_timestamp() FROM permit WHERE id = %s", (made,)
    ).fetchone() == (True,)
    with refused("TH012"):
        raw.execute(REDEEM, (made,))


@pytest.mark.parametrize("value", ["NULL", "redeemed_at"])
def test_what_is_redeemed_stays_so(raw: Raw, value: str) -> None:
    made = add(raw)
    raw.execute(REDEEM, (made,))
    with refused("TH012"):
        raw.execute(f"UPDATE permit SET redeemed_at = {value} WHERE id = %s", (made,))


def test_it_is_not_redeemed_after_its_time(raw: Raw) -> None:
    made = add(raw, since=61)
    with refused("TH012"):
        raw.execute(REDEEM, (made,))


@pytest.mark.parametrize(
    "change",
    [
        "expires_at = expires_at + interval '1 day'",
        "arguments_digest = sha256('x')",
        "tool_digest = sha256('x')",
        "context_id = context_id + 1",
        "public_id = 'x'",
        "rules_version = 2",
        "asked = false",
    ],
)
def test_it_changes_in_no_other_way(raw: Raw, change: str) -> None:
    made = add(raw)
    for statement in (f"UPDATE permit SET {change}", f"UPDATE permit SET redeemed_at = now(), {change}"):
        with refused("TH012"), raw.transaction():
            raw.execute(f"{statement} WHERE id = %s", (made,))


def test_it_is_not_deleted_while_it_lasts(raw: Raw) -> None:
    made, ended = add(raw), add(raw, since=61)
    with refused("TH012"), raw.transaction():
        raw.execute("DELETE FROM permit WHERE id = %s", (made,))
    raw.execute("DELETE FROM permit WHERE id = %s", (ended,))
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with refused("TH008"):
        raw.execute("TRUNCATE permit")


def test_it_is_not_born_redeemed(raw: Raw) -> None:
    with refused("TH012"):
        add(raw, redeemed_at="2030-01-01")


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"lasts": -1}, "permit_expires_after_issue"),
        ({"arguments_digest": b"x"}, "permit_digests_are_sha256"),
        ({"tool_digest": b""}, "permit_digests_are_sha256"),
    ],
)
def test_it_makes_sense(raw: Raw, values: dict[str, Any], constraint: str) -> None:
    with violates(constraint):
        add(raw, **values)


def test_an_id_is_there_once(raw: Raw) -> None:
    add(raw, public_id="x" * 32)
    with violates("permit_public_id_unique"):
        add(raw, public_id="x" * 32)


@pytest.mark.parametrize("born", ["queued", "input_required"])
def test_what_is_only_decided_never_runs(raw: Raw, born: str) -> None:
    with violates("task_decided_only_never_runs"):
        made = sql.task(raw, state=State.INPUT_REQUIRED, born=born, revision="approvals")
        raw.execute("UPDATE question SET state = 'superseded', closed_at = now() WHERE task_id = %s", (made,))
        raw.execute("UPDATE task SET state = 'queued' WHERE id = %s", (made,))


def test_of_two_statements_at_once_one_redeems_it(transactional_db: None) -> None:
    with sql.connect(autocommit=True) as raw:
        made = add(raw)
    at_once, outcomes = threading.Barrier(2), []

    def redeem() -> None:
        with sql.connect() as mine:
            at_once.wait(10)
            try:
                outcomes.append(mine.execute(REDEEM, (made,)).rowcount)
            except psycopg.Error as error:
                outcomes.append(error.sqlstate)

    threads = [threading.Thread(target=redeem) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(map(str, outcomes)) == ["1", "TH012"]
