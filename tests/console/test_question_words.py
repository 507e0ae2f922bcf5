"""Each kind of question has its words, icon and form in the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from taskhub.console.questions import ASKED_BACK, PAGE, WORDS, of_clients, words_of
from taskhub.console.templatetags.console import icon
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.forms import checked_elicitation
from taskhub.domain.questions.kinds import KINDS, METHODS
from tests.factories import make_question


@dataclass(frozen=True)
class Asked:
    """A question as pages read it."""

    kind: QuestionKind
    params: dict[str, Any]
    about: int | None = None


def asked(**of: Any) -> Asked:
    question = make_question(**of)
    return Asked(question.kind, question.params)


@dataclass(frozen=True)
class Shown:
    """A question as pages read it."""

    kind: QuestionKind
    params: dict[str, Any]
    about: int | None = None


def test_the_table_has_every_kind() -> None:
    assert set(WORDS) == set(QuestionKind) == set(KINDS)


@pytest.mark.parametrize("kind", list(QuestionKind))
def test_every_kind_can_be_told_from_the_others(kind: QuestionKind) -> None:
    words = WORDS[kind]
    for said in ("name", "noun", "icon", "title"):
        assert [other for other in WORDS if getattr(WORDS[other], said) == getattr(words, said)] == [kind], said
    assert "<svg" in icon(words.icon)


def test_what_a_client_declares_has_a_word_and_what_happens_without_it_a_sentence() -> None:
    described = list(of_clients())
    assert {kind for kind, _, _ in described} == set(METHODS)
    assert len({words.declared for _, _, words in described} - {""}) == len(described)
    assert all(words.instead.endswith(".") for _, _, words in described)
    assert WORDS[QuestionKind.APPROVAL].declared == ""


@pytest.mark.parametrize("kind", list(QuestionKind))
def test_every_kind_has_a_form_but_a_page_and_an_authorization(kind: QuestionKind) -> None:
    question = asked(kind=kind)
    assert words_of(Shown(kind, question.params)) is WORDS[kind]
    assert (WORDS[kind].form(question.params, None) is None) == (kind is QuestionKind.AUTHORIZATION)
    assert PAGE.form({"mode": "url"}, None) is None


def test_a_page_to_open_is_asked_in_its_own_words() -> None:
    assert words_of(Shown(QuestionKind.ELICITATION, {"mode": "url", "url": "https://example.com"})) is PAGE


def test_what_an_approver_asks_is_told_from_what_a_tool_asks() -> None:
    assert words_of(Shown(QuestionKind.ELICITATION, {}, about=7)) is ASKED_BACK
    assert "tool" not in ASKED_BACK.title + ASKED_BACK.closed


def test_what_a_form_sends_is_an_answer() -> None:
    params = {"requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
    form = WORDS[QuestionKind.ELICITATION].form(params, {"f0": "Ada"})
    assert form is not None
    assert form.is_valid()
    assert checked_elicitation(params, form.response()) == {"action": "accept", "content": {"name": "Ada"}}
