"""What the tables of webhooks and notices refuse, whatever program asks; and what goes with a webhook."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store import raw as sql
from tests.store.raw import Raw, violates


def webhook(raw: Raw, **values: Any) -> tuple[int, int]:
    """A webhook; the ids of its tenant and its own."""
    tenant = sql.owner(raw).tenant
    given = {"tenant_id": tenant, "name": "ours", "sealed_url": b"u", "origin": "https://a", "kinds": ["task.failed"]}
    return tenant, sql.insert(raw, "webhook", **{**given, "sealed_secret": b"s", **values})


def notice(raw: Raw, tenant: int, ours: int, public_id: str = "msg_1", **values: Any) -> int:
    given = {"tenant_id": tenant, "public_id": public_id, "event_id": 7, "kind": "task.failed", "channel": "webhook"}
    return sql.insert(raw, "notice", **{**given, "webhook_id": ours, "body": "{}", **values})


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"kinds": []}, "webhook_sends_something"),
        ({"sealed_secret_before": b"x"}, "webhook_secret_before_ends"),
        ({"before_until": "2030-01-01"}, "webhook_secret_before_ends"),
    ],
)
def test_a_webhook_that_is_none(raw: Raw, values: dict[str, Any], constraint: str) -> None:
    with violates(constraint):
        webhook(raw, **values)


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"public_id": "msg_0"}, "notice_public_id_unique"),
        ({"event_id": 6}, "notice_once_for_a_webhook"),
        ({"webhook_id": None}, "notice_has_its_receiver"),
        ({"channel": "pigeon"}, "notice_has_its_receiver"),
        ({"state": "sent"}, "notice_state_fits"),
        ({"state": "lost", "ended_at": "2030-01-01"}, "notice_state_fits"),
        ({"state": "failed", "ended_at": "2030-01-01", "lease_until": "2030-01-01"}, "notice_state_fits"),
        ({"ended_at": "2030-01-01"}, "notice_state_fits"),
    ],
)
def test_a_notice_that_is_none(raw: Raw, values: dict[str, Any], constraint: str) -> None:
    tenant, ours = webhook(raw)
    notice(raw, tenant, ours, "msg_0", event_id=6)
    with violates(constraint):
        notice(raw, tenant, ours, **values)


def test_an_attempt_has_its_number_once(raw: Raw) -> None:
    tenant, ours = webhook(raw)
    made = notice(raw, tenant, ours)
    sql.insert(raw, "delivery", notice_id=made, number=1)
    with violates("delivery_number_unique"):
        sql.insert(raw, "delivery", notice_id=made, number=1)


def test_what_hangs_on_a_webhook_goes_with_it(raw: Raw) -> None:
    tenant, ours = webhook(raw)
    sql.insert(raw, "delivery", notice_id=notice(raw, tenant, ours), number=1)
    raw.execute("DELETE FROM webhook WHERE id = %s", (ours,))
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert raw.execute("SELECT count(*) FROM notice").fetchone() == (0,)
    assert raw.execute("SELECT count(*) FROM delivery").fetchone() == (0,)
