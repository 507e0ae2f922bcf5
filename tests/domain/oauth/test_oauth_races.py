"""A code and a refresh token work once, also for two requests at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from taskhub.domain.oauth.consents import AccessToken, Grant, RefreshToken
from taskhub.store.models import Event
from tests.console.admin import browser
from tests.domain.kit import wait_until
from tests.factories import make_person, make_tenant
from tests.support.oauth import Program, make_application

pytestmark = pytest.mark.django_db(transaction=True)


def waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees the same activity for ever
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


SERVED_ONCE = ([200, 400], [400, 400])
"""The second may end the sign-in, and the tokens of the first, before the first is answered."""


def both_at_once(rows: Any, call: Callable[[], Any]) -> list[int]:
    """The statuses of two calls that both got as far as the row they spend before either could."""
    statuses: list[int] = []

    def work() -> None:
        try:
            statuses.append(call().status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    with transaction.atomic():
        assert list(rows.select_for_update())
        for thread in threads:
            thread.start()
        wait_until(lambda: waiting() == 2)
    for thread in threads:
        thread.join()
    return sorted(statuses)


@pytest.fixture
def program() -> Program:
    tenant = make_tenant()
    return Program.of(browser(make_person("operator", tenant)), make_application(tenant)[0])


def test_of_two_refreshes_with_one_token_one_is_served_and_the_sign_in_ends(program: Program) -> None:
    tokens = program.sign_in()
    live = RefreshToken.objects.filter(revoked__isnull=True)
    assert both_at_once(live, lambda: program.refresh(tokens["refresh_token"])) in SERVED_ONCE
    assert Event.objects.filter(action="token.reused").count() == 1
    assert not live.exists()
    assert not AccessToken.objects.exists()


def test_of_two_exchanges_of_one_code_one_is_served_and_the_sign_in_ends(program: Program) -> None:
    code = program.code()
    assert both_at_once(Grant.objects.all(), lambda: program.exchange(code)) in SERVED_ONCE
    assert Event.objects.filter(action="code.reused").count() == 1
    assert not RefreshToken.objects.filter(revoked__isnull=True).exists()
    assert not AccessToken.objects.exists()
