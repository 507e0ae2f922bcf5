"""What commands say is kept for people: the newest lines, for some days."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from taskhub.domain.workers.lines import KEPT, lines_of, purge_lines, store_lines
from taskhub.store.models import ServerLine
from tests.factories import make_server, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def server() -> int:
    return int(make_server(make_tenant()).pk)


def said(server: int) -> list[str]:
    return [row.text for row in lines_of(server)]


def test_the_newest_are_kept_in_their_order(server: int) -> None:
    other = make_server(make_tenant()).pk
    store_lines(other, ["mine"], worker="w1")
    for start in range(0, KEPT * 3, 90):
        store_lines(server, [str(number) for number in range(start, start + 90)], worker="w1")
    assert said(server) == [str(number) for number in range(KEPT * 3 + 30 - KEPT, KEPT * 3 + 30)]
    assert ServerLine.objects.filter(server=server).count() == KEPT
    store_lines(server, [f"more {number}" for number in range(KEPT * 2)], worker="w2")
    assert said(server) == [f"more {number}" for number in range(KEPT, KEPT * 2)]
    assert said(other) == ["mine"]


def test_what_postgres_cannot_store_is_replaced(server: int) -> None:
    store_lines(server, ["a\0b", "ü"], worker="w1")
    store_lines(server, [], worker="w1")
    assert said(server) == ["a\ufffdb", "ü"]


def test_they_go_after_some_days_and_with_their_server(server: int) -> None:
    store_lines(server, ["old", "new"], worker="w1")
    assert purge_lines() == 0
    ServerLine.objects.filter(text="old").update(said_at=timezone.now() - timedelta(days=8))
    assert (purge_lines(), said(server)) == (1, ["new"])
    row = ServerLine.objects.get().server
    row.enabled, row.state, row.removed_at = False, "disabled", timezone.now()
    row.save()
    store_lines(server, ["too late"], worker="w1")
    assert (purge_lines(), said(server)) == (1, [])
