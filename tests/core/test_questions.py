"""Who can be asked: B26-62, T26-31, design idea 4."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.core.permissions import PERMISSIONS
from taskhub.core.states import Audience, QuestionKind
from taskhub.domain.questions.kinds import (
    BY_METHOD,
    KINDS,
    METHODS,
    audience_for,
    can_answer,
    checked_response,
    model_may_answer,
    verdict_of,
)

E, S, R, A = QuestionKind.ELICITATION, QuestionKind.SAMPLING, QuestionKind.ROOTS, QuestionKind.APPROVAL
FORM: dict[str, Any] = {"message": "m", "requestedSchema": {}}
URL: dict[str, Any] = {"mode": "url", "url": "https://example.com"}


@pytest.mark.parametrize(
    ("capabilities", "kind", "params", "can"),
    [
        ({}, E, FORM, False),
        ({"elicitation": {}}, E, FORM, True),
        ({"elicitation": {"form": {}}}, E, FORM, True),
        ({"elicitation": {"form": {}}}, E, {**FORM, "mode": "form"}, True),
        ({"elicitation": {"url": {}}}, E, FORM, False),
        ({"elicitation": {}}, E, URL, False),
        ({"elicitation": {"form": {}}}, E, URL, False),
        ({"elicitation": {"url": {}}}, E, URL, True),
        ({"elicitation": {"form": {}, "url": {}}}, E, URL, True),
        ({"elicitation": None}, E, FORM, False),
        ({"elicitation": True}, E, FORM, False),
        ({"sampling": {}}, S, {}, True),
        ({"sampling": {}}, S, {"tools": []}, False),
        ({"sampling": {"tools": {}}}, S, {"tools": []}, True),
        ({"sampling": []}, S, {}, False),
        ({}, S, {}, False),
        ({"roots": {}}, R, {}, True),
        ({"roots": {"listChanged": True}}, R, {}, True),
        ({"roots": "yes"}, R, {}, False),
        ({}, R, {}, False),
        ({"elicitation": {}, "sampling": {}, "roots": {}, "approval": {}}, A, {}, False),
    ],
)
def test_a_client_can_answer_what_it_said_it_can(
    capabilities: dict[str, Any], kind: QuestionKind, params: dict[str, Any], can: bool
) -> None:
    assert can_answer(capabilities, kind, params) is can


@pytest.mark.parametrize("policy", [None, *Audience])
def test_a_client_that_cannot_answer_is_never_asked(policy: Audience | None) -> None:
    assert audience_for({}, E, FORM, policy) is Audience.OPERATOR
    assert audience_for({"elicitation": {}}, A, {}, policy) is Audience.OPERATOR


@pytest.mark.parametrize("policy", list(Audience))
def test_otherwise_the_policy_has_its_word(policy: Audience) -> None:
    assert audience_for({"elicitation": {}}, E, FORM, policy) is policy


def test_without_a_policy_whoever_is_first_answers() -> None:
    assert audience_for({"elicitation": {}}, E, FORM, None) is Audience.EITHER


@pytest.mark.parametrize("policy", [None, *Audience])
@pytest.mark.parametrize(
    ("kind", "params", "form"),
    [
        (E, FORM, True),
        (E, {**FORM, "mode": "form"}, True),
        (E, URL, False),
        (S, {}, False),
        (R, {}, False),
        (A, {}, False),
    ],
)
def test_a_model_answers_forms_alone_and_where_the_policy_names_nobody_else(
    policy: Audience | None, kind: QuestionKind, params: dict[str, Any], form: bool
) -> None:
    assert model_may_answer(kind, params, policy) is (form and policy is Audience.CLIENT)


def test_the_table_has_every_kind_and_a_method_of_its_own_for_each_that_clients_answer() -> None:
    assert set(KINDS) == set(QuestionKind)
    assert dict(METHODS) == {E: "elicitation/create", S: "sampling/createMessage", R: "roots/list"}
    assert {kind: BY_METHOD[method] for kind, method in METHODS.items()} == {E: E, S: S, R: R}


@pytest.mark.parametrize("params", [FORM, URL, {"tools": []}])
@pytest.mark.parametrize("kind", list(METHODS))
def test_a_client_that_declares_what_is_needed_can_answer(kind: QuestionKind, params: dict[str, Any]) -> None:
    assert can_answer(KINDS[kind].needs(params), kind, params)
    assert not can_answer({}, kind, params)


@pytest.mark.parametrize("kind", list(QuestionKind))
def test_whoever_answers_needs_a_permission_that_somebody_has(kind: QuestionKind) -> None:
    assert KINDS[kind].permission in set().union(*PERMISSIONS.values())


@pytest.mark.parametrize(
    ("kind", "answer", "verdict"),
    [
        (E, {"action": "decline"}, "decline"),
        (E, {"action": "accept", "content": {}}, "accept"),
        (S, {"role": "user", "content": {}, "model": "m", "action": "decline"}, "answer"),
        (R, {"roots": []}, "answer"),
    ],
)
def test_an_answer_comes_to_one_word(kind: QuestionKind, answer: dict[str, Any], verdict: str) -> None:
    assert verdict_of(kind, checked_response(kind, {}, answer)) == verdict


def test_an_approval_is_no_answer() -> None:
    with pytest.raises(Invalid, match="decided by people"):
        checked_response(A, {}, {"verdict": "approve"})
