"""A worker that is stopped for longer than its lease, while a tool runs that may not run twice, and goes on."""

from __future__ import annotations

import psutil
import pytest

from tests.deployment.test_outcomes import QUESTION, Shop, attempts, client, ready, shop, tool
from tests.support.client import Client
from tests.support.hub import wait_until

__all__ = ["client", "shop"]

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("server", ["command", "http"])
def test_its_tool_runs_on_and_the_result_counts(shop: Shop, client: Client, server: str) -> None:
    order = f"held-up-{server}"
    shop.let_go(False)
    wait_until(lambda: ready(shop, server), "a worker that has listed it", 60)
    task = client.create(tool(shop, server), {"order": order})
    wait_until(lambda: shop.ledger(order) == 1, "the tool to run", 30)
    worker = psutil.Process(shop.hub.part("worker").pid)
    worker.suspend()
    sweep = 'SELECT sweep(10, 10, 3600, \'{"name": "sweep", "door": "policy"}\')'
    shop.hub.sql("UPDATE task SET lease_until = now() - interval '1 second' WHERE public_id = %s", [task])
    assert shop.hub.sql(sweep) == [(1,)]
    worker.resume()
    # The tool is let go only after the worker has found, twice, that its lease is lost.
    began = "SELECT now() + interval '4 seconds'"
    ((until,),) = shop.hub.sql(began)
    beats = "SELECT 1 FROM worker WHERE name LIKE %s AND heartbeat_at > %s"
    wait_until(lambda: shop.hub.sql(beats, [f"%:{worker.pid}", until]), "leases to be renewed", 30)
    assert shop.hub.sql(QUESTION, [task])
    shop.let_go(True)
    done = client.until(task, "completed", "failed", seconds=30)
    assert done["status"] == "completed"
    assert done["result"]["content"] == [{"type": "text", "text": f"shipped {order}"}]
    assert not shop.hub.sql(QUESTION, [task])
    assert (attempts(shop, task), shop.ledger(order)) == (["finished"], 1)
