"""Versions of a tenant's rules are only ever added, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.states import State
from tests.store import raw as sql
from tests.store.raw import Raw, refused, violates


def add(raw: Raw, rules: str = "[]", **values: Any) -> int:
    given = {"tenant_id": sql.owner(raw).tenant, "number": 1, "digest": "0" * 64, "made_by": "ada", **values}
    return sql.insert(raw, "rule_version", rules=rules, **given)


@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET reason = 'x' WHERE id = {}", "DELETE FROM {} WHERE id = {}", "TRUNCATE {} -- {}"]
)
def test_a_version_stays_as_it_is(raw: Raw, statement: str) -> None:
    made = add(raw)
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")  # or TRUNCATE fails for a check that is still to come
    with refused("TH008"):
        raw.execute(statement.format("rule_version", made))


@pytest.mark.parametrize("rules", ["{}", '"[]"', "null", json.dumps(["x" * 1_048_576])])
def test_the_rules_are_a_list_of_a_bounded_size(raw: Raw, rules: str) -> None:
    with violates("rule_version_rules_bounded"):
        add(raw, rules)


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_begin_with_one(raw: Raw, number: int) -> None:
    with violates("rule_version_number_positive"):
        add(raw, number=number)


def test_a_number_is_there_once_in_a_tenant(raw: Raw) -> None:
    tenant = sql.owner(raw).tenant
    add(raw, tenant_id=tenant)
    add(raw)  # another tenant's
    with violates("rule_version_number_unique"):
        add(raw, tenant_id=tenant)


@pytest.mark.parametrize(
    ("state", "said"),
    [(State.WORKING, None), (State.WORKING, '{"then": "allow", "version": 1}'), (State.FINISHED, '{"version": 3}')],
)
def test_what_the_rules_said_gives_way_to_a_later_version_only_while_the_task_lives(
    raw: Raw, state: State, said: str | None
) -> None:
    task = sql.task(raw, state=state, decided='{"then": "ask", "version": 2}')
    if state is State.WORKING:
        raw.execute("UPDATE task SET decided = %s WHERE id = %s", ('{"then": "deny", "version": 2}', task))
    with refused("TH001"):
        raw.execute("UPDATE task SET decided = %s WHERE id = %s", (said, task))
