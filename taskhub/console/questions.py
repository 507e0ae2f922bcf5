"""Words, icon and form of each kind of question on pages. `domain.questions.kinds.KINDS` has the rules of the kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from django import forms

from taskhub.console.forms.questions import AnswerForm, DecisionForm, RootsForm, RulingForm, TextAnswerForm
from taskhub.core.asking import asking
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.forms import form_fields
from taskhub.domain.questions.kinds import METHODS


@dataclass(frozen=True, slots=True)
class Words:
    """How pages name and draw one kind of question."""

    name: str
    noun: str
    """The thing that the task waits for, as in “waiting for an answer”."""
    icon: str
    title: str
    """The heading of an open question."""
    closed: str
    """The heading of a closed question."""
    wants: str
    """The words after the tool's name in the inbox, such as what the tool asks for; empty if the inbox quotes the
    question."""
    form: Callable[[dict[str, Any], Any], forms.Form | None]
    """Makes the form from the question's params and the posted data; `None` if there is nothing to fill in. Raises
    `Invalid` for params that do not describe a form."""
    declared: str = ""
    """The word for this kind in the list of the kinds that a client declares to answer."""
    instead: str = ""
    """Who answers such questions if the client does not declare this kind."""


def _answer_form(params: dict[str, Any], data: Any) -> forms.Form:
    schema = params.get("requestedSchema")
    return AnswerForm(form_fields(schema if isinstance(schema, dict) else {}), data)


def _decision_form(params: dict[str, Any], data: Any) -> forms.Form:
    return DecisionForm(data, confirms=str(params.get("tool", "")) if asking(params).critical else "")


WORDS: Final[Mapping[QuestionKind, Words]] = MappingProxyType(
    {
        QuestionKind.ELICITATION: Words(
            name="Form",
            noun="an answer",
            icon="chat-bubble-left-ellipsis",
            title="The tool asks a question",
            closed="The tool asked a question",
            wants="",
            form=_answer_form,
            declared="forms",
            instead="Forms: people answer them in the inbox.",
        ),
        QuestionKind.SAMPLING: Words(
            name="Sampling",
            noun="a written reply",
            icon="pencil-square",
            title="The tool asks for a written reply",
            closed="The tool asked for a written reply",
            wants="asks for a written reply",
            form=lambda params, data: TextAnswerForm(data),
            declared="sampling",
            instead="Sampling: people write the reply in the inbox.",
        ),
        QuestionKind.ROOTS: Words(
            name="Roots",
            noun="a list of roots",
            icon="folder-open",
            title="The tool asks which roots it may use",
            closed="The tool asked which roots it may use",
            wants="asks for roots",
            form=lambda params, data: RootsForm(data),
            declared="roots",
            instead="Roots: people list them in the inbox.",
        ),
        QuestionKind.APPROVAL: Words(
            name="Approval",
            noun="an approval",
            icon="shield-exclamation",
            title="Approve this call?",
            closed="Approval of this call",
            wants="",
            form=_decision_form,
        ),
        QuestionKind.OUTCOME: Words(
            name="Unknown outcome",
            noun="a ruling on whether the tool ran",
            icon="question-mark-circle",
            title="Did the tool run?",
            closed="Whether the tool ran",
            wants="was lost while it ran: outcome unknown",
            form=lambda params, data: RulingForm(data),
        ),
        QuestionKind.AUTHORIZATION: Words(
            name="Authorization",
            noun="an authorization",
            icon="key",
            title="Authorize its server?",
            closed="Authorization of its server",
            wants="",
            form=lambda params, data: None,
        ),
    }
)

PAGE: Final = replace(
    WORDS[QuestionKind.ELICITATION],
    title="The tool asks to open a page",
    closed="The tool asked to open a page",
    wants="asks to open a page",
    form=lambda params, data: None,
    declared="pages",
    instead="Pages to open: people open them from the inbox.",
)
"""The words of an elicitation in url mode. It has the kind of an elicitation, but a page to open instead of a form."""


ASKED_BACK: Final = replace(
    WORDS[QuestionKind.ELICITATION],
    title="An approver asks about your call",
    closed="An approver asked about the call",
)
"""The words of an elicitation with which an approver asks the requester of a call."""


class Question(Protocol):
    """The attributes of a question that `words_of` needs, whichever query read it."""

    @property
    def kind(self) -> QuestionKind:
        """The kind of the question."""

    @property
    def params(self) -> dict[str, Any]:
        """The params with which the question was asked."""

    @property
    def about(self) -> int | None:
        """If an approver asks the requester: the approval."""


def words_of(question: Question) -> Words:
    """The words of this question's kind."""
    if question.about is not None:
        return ASKED_BACK
    page = question.kind is QuestionKind.ELICITATION and question.params.get("mode") == "url"
    return PAGE if page else WORDS[question.kind]


def of_clients() -> Iterator[tuple[QuestionKind, dict[str, Any], Words]]:
    """Each kind of question that a client can declare to answer, with minimal params of such a question and the kind's
    words."""
    for kind in METHODS:
        yield kind, {}, WORDS[kind]
        if kind is QuestionKind.ELICITATION:
            yield kind, {"mode": "url"}, PAGE
