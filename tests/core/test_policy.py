"""A tool's policy: one record, whose fields are columns, and what it may say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.core.policy import (
    CALLER,
    MAX_ATTEMPTS,
    MAX_RUN_SECONDS,
    POLICY_FIELDS,
    Policy,
    check_policy,
    mark_of,
    values_of,
)
from taskhub.core.states import Audience, TaskMode
from taskhub.domain.catalogue.reads import server_tools
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.store.models import Tool
from tests.factories import make_server, make_tenant, make_tool

CHANGES: dict[str, Any] = {
    "enabled": False,
    "policy_mode": "never",
    "policy_at_least_once": True,
    "question_audience": "operator",
    "people_after_program": True,
    "companion": {"tool": "look", "arguments": {"id": {"argument": "id"}}, "field": "state", "ran": "done"},
    "retry_on": ["connect", "-32001"],
    "retry_seconds": 5,
    "max_attempts": 5,
    "run_seconds": 60,
    "join_seconds": 0,
}


def test_a_policy_nobody_wrote_is_what_a_new_row_has(db: None) -> None:
    tool = Tool.objects.create(server=make_server(make_tenant()), name="t", exposed_name="t", definition={}, digest="")
    tool.refresh_from_db()
    assert values_of(tool) == values_of(Policy())


def test_whatever_shows_a_tool_has_the_policy_of_its_row(db: None) -> None:
    assert tuple(CHANGES) == POLICY_FIELDS
    tool = make_tool(make_server(tenant := make_tenant()), "deploy", **CHANGES)
    (row,), record = server_tools(tenant.pk, tool.server_id), tool_by_id(tool.id)
    assert record is not None
    assert values_of(row) == values_of(record) == CHANGES
    assert row.seen == mark_of(Tool.objects.get(pk=tool.id)) == mark_of(Policy(**CHANGES))


@pytest.mark.parametrize("name", POLICY_FIELDS)
def test_every_field_counts_in_the_mark(name: str) -> None:
    assert mark_of(replace(Policy(), **{name: CHANGES[name]})) != mark_of(Policy())


@pytest.mark.parametrize(
    ("policy_mode", "hint", "mode"),
    [(None, None, "auto"), (None, "always", "always"), ("never", None, "never"), ("never", "always", "never")],
)
def test_the_operators_mode_wins_over_the_tools_own(policy_mode: str | None, hint: str | None, mode: str) -> None:
    assert Policy(policy_mode=policy_mode).mode_for(hint) is TaskMode(mode)


@pytest.mark.parametrize("harmless", [True, False])
@pytest.mark.parametrize("said", [True, False, None])
def test_the_operators_word_on_repeating_wins_over_the_tools_own(said: bool | None, harmless: bool) -> None:
    assert Policy(policy_at_least_once=said).repeats(harmless=harmless) is (harmless if said is None else said)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(**CHANGES),
        *(Policy(policy_mode=mode) for mode in TaskMode),
        *(Policy(question_audience=audience) for audience in (*Audience, CALLER)),
        Policy(max_attempts=MAX_ATTEMPTS, run_seconds=MAX_RUN_SECONDS),
        Policy(max_attempts=1, run_seconds=1),
    ],
)
def test_what_may_be_laid_down(policy: Policy) -> None:
    check_policy(policy)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy_mode", "sometimes"),
        ("policy_mode", ""),
        ("question_audience", "anybody"),
        ("max_attempts", 0),
        ("max_attempts", MAX_ATTEMPTS + 1),
        ("run_seconds", 0),
        ("run_seconds", MAX_RUN_SECONDS + 1),
    ],
)
def test_what_may_not_and_which_field_says_so(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        check_policy(replace(Policy(), **{field: value}))
    assert caught.value.data["field"] == field
