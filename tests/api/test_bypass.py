"""A bypass of a running hub: calls and approvals pass while it is in force, and are asked about before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.approvals import Api
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.policies import rules_in_force

pytestmark = pytest.mark.processes

RULES: tuple[dict[str, Any], ...] = (
    {"name": "never", "when": "tool.name == 'slow_compute' && args.seconds == 0.3", "then": "deny"},
    {
        "name": "only by people",
        "when": "tool.name == 'slow_compute' && args.seconds == 0.2",
        "then": "ask",
        "risk": "critical",
    },
    {"name": "work", "when": "tool.name in ['slow_compute', 'greet']", "then": "ask"},
)


@pytest.fixture(autouse=True)
def _ruled(hub: RunningHub) -> Iterator[None]:
    with rules_in_force(hub, *RULES):
        yield


def test_calls_and_approvals_pass_while_it_is_in_force(hub: RunningHub) -> None:
    api = Api(hub)
    with Client(hub.base, hub.tokens["agent-a"]) as client:

        def asked(seconds: float) -> bool:
            found = client.tool("slow_compute", {"seconds": seconds}, caps=TASKS).result
            if found["resultType"] != "task":
                return False  # it ran
            client.cancel(found["taskId"])
            return str(found.get("statusMessage")).startswith("Waiting for approval")

        assert asked(0.1)
        assert api.ask("Ann")["status"] == "pending"
        hub.manage("bypass", "start", "5", "--reason", "The inbox is down")
        try:
            wait_until(lambda: not asked(0.1), "the bypass to count")
            assert not asked(0.1)
            granted = api.ask("Ann")
            assert granted["status"] == "granted"
            assert granted["message"].startswith("Not asked: bypass until ")
            assert api.redeem(granted, "Ann") == (200, "redeemed")
            assert client.tool("slow_compute", {"seconds": 0.3}, caps=TASKS).result["isError"]
            assert asked(0.2)
            kept = api.ask("Ann")
        finally:
            hub.manage("bypass", "stop")
        wait_until(lambda: asked(0.1), "the end of the bypass to count")
        assert api.redeem(kept, "Ann") == (409, "approval_needed")
    told = (
        "SELECT t.public_id, e.after ->> 'permit' FROM event e LEFT JOIN task t ON t.id = e.task_id"
        " WHERE e.action = 'rules.bypassed' ORDER BY e.id"
    )
    found = hub.sql(told)
    assert any(task is not None and permit is None for task, permit in found)
    assert [permit for task, permit in found if task is None] == [granted["id"], granted["id"], kept["id"]]
