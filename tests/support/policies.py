"""Policies of tools of a running hub, for a while: set, waited for, set back, and waited for again. Web processes read
their catalogue anew after a hint, so a test that did not wait at its end would leave the policy to the next one."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from taskhub.domain.rules.written import of_tool
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until


@contextlib.contextmanager
def approval_wanted(hub: RunningHub, tool: str, arguments: dict[str, Any], *, group: str = "") -> Iterator[None]:
    """Calls of the tool wait for an approval."""
    with Client(hub.base, hub.tokens["agent-a"]) as client:

        def counts() -> bool:
            found = client.tool(tool, arguments, caps=TASKS).result
            if found["resultType"] != "task":
                return False
            client.cancel(found["taskId"])
            return str(found.get("statusMessage")).startswith("Waiting for approval")

        ((present,),) = hub.sql("SELECT coalesce(max(number), 0) FROM rule_version")
        known = "SELECT s.name, o.name FROM tool o JOIN server s ON s.id = o.server_id WHERE o.exposed_name = %s"
        when = of_tool(*hub.sql(known, [tool])[0])
        rule = {"name": "approval wanted", "when": when, "then": "ask", "group": group}
        # A first rule beside those in force; afterwards these alone.
        change = """
            INSERT INTO rule_version (tenant_id, number, rules, digest, made_by, reason)
            SELECT t.id, (SELECT max(v.number) + 1 FROM (SELECT 0 AS number UNION SELECT number FROM rule_version
                                                         WHERE tenant_id = t.id) AS v),
                   (%s::jsonb || coalesce((SELECT rules::jsonb FROM rule_version
                                           WHERE tenant_id = t.id AND number = %s), '[]'))::json, '', 'test', ''
            FROM tenant t ORDER BY t.id LIMIT 1"""
        with _changed(hub, lambda on: hub.sql(change, [json.dumps([rule] if on else []), present]), counts):
            yield


@contextlib.contextmanager
def never_joined(hub: RunningHub, tool: str, arguments: dict[str, Any]) -> Iterator[None]:
    """Equal calls of the tool are calls of their own."""
    with Client(hub.base, hub.tokens["agent-a"]) as client:

        def counts() -> bool:
            client.tool(tool, arguments)
            made = "SELECT join_seconds FROM task WHERE tool_name = %s ORDER BY id DESC LIMIT 1"
            return hub.sql(made, [tool]) == [(None,)]

        change = "UPDATE tool SET join_seconds = %s WHERE name = %s"
        with _changed(hub, lambda on: hub.sql(change, [0 if on else 300, tool]), counts):
            yield


@contextlib.contextmanager
def _changed(hub: RunningHub, change: Callable[[bool], object], counts: Callable[[], bool]) -> Iterator[None]:
    def becomes(on: bool) -> None:
        change(on)
        hub.sql("SELECT pg_notify('taskhub', 'c')")
        wait_until(lambda: counts() is on, f"the policy to count: {on}")

    try:
        becomes(True)
        yield
    finally:
        becomes(False)


@contextlib.contextmanager
def rules_in_force(hub: RunningHub, *rules: dict[str, Any]) -> Iterator[None]:
    """The rules of the hub's tenant. Each of its web processes knows them when the block begins."""
    mark = f"mark-{secrets.token_hex(4)}"

    def save(*listed: dict[str, Any]) -> None:
        file = hub.data / f"{mark}.json"
        file.write_text(json.dumps(listed))
        hub.manage("rule", "set", str(file))

    def counts(on: bool) -> bool:
        # A connection each, so that every process is asked.
        return all(_denied(hub, mark) is on for _ in range(4))

    # A rule that denies what no test calls shows that the list counts.
    save(
        {"name": mark, "when": f"has(args.mark) && args.mark == {json.dumps(mark)}", "then": "deny", "words": mark},
        *rules,
    )
    try:
        wait_until(lambda: counts(on=True), "the rules to count")
        yield
    finally:
        save()
        wait_until(lambda: counts(on=False), "the rules to count no more")


def _denied(hub: RunningHub, mark: str) -> bool:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        # An error is of a process that did not know the rules: a worker, which did, ended the call.
        return mark in str(client.tool("greet", {"name": "x", "mark": mark}).messages[-1].get("result"))
