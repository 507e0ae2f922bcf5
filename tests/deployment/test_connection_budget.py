"""However many ask, a web process keeps to its connections, and another one is not disturbed."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

import pytest
from django.conf import settings

from tests.support.client import Client
from tests.support.hub import RunningHub
from tests.support.web import Web, webs

pytestmark = pytest.mark.processes

BURST = 300
MARK = "crowded-web"
BUDGET = settings.TASKHUB_LANES + settings.TASKHUB_PAGE_LANES + 3
"""As docs/run/scaling.md says: the lanes, the one that listens, the one that announces, the one for calls in place."""


def _status(url: str) -> int | str:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError as error:
        return str(error)


def _sessions(hub: RunningHub) -> int:
    # The listener's session has a name of its own; it is counted with the budget.
    found = hub.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s", (MARK,)
    )
    return int(found[0][0])


def test_a_burst_of_anonymous_requests_takes_no_more_than_the_budget(hub: RunningHub) -> None:
    marked = f"{hub.environment['DATABASE_URL']}&application_name={MARK}"
    answers: list[int | str] = []
    together = threading.Barrier(BURST)

    def ask(web: Web) -> None:
        together.wait(60)
        answers.append(_status(f"{web.base}/readyz"))

    with (
        webs(hub, 1, DATABASE_URL=marked) as (crowded,),
        webs(hub, 1) as (other,),
        Client(other.base, hub.tokens["agent-a"]) as client,
    ):
        task = client.create("slow_compute", {"seconds": 2, "label": "x"})
        asking = [threading.Thread(target=ask, args=(crowded,)) for _ in range(BURST)]
        for thread in asking:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in asking):
            most = max(most, _sessions(hub))
            assert client.get(task).result["taskId"] == task
        assert answers == [200] * BURST
        assert 0 < max(most, _sessions(hub)) + 1 <= BUDGET
