"""How each kind of question is named, drawn and asked: the console's half of `domain.questions.kinds.KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from django import forms

from taskhub.console.forms.questions import AnswerForm, DecisionForm, RootsForm, TextAnswerForm
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.forms import form_fields
from taskhub.domain.questions.kinds import METHODS


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one kind of question."""

    name: str
    noun: str
    """What the task waits for."""
    icon: str
    title: str
    """The heading of the question."""
    closed: str
    """The heading once it is closed."""
    wants: str
    """What the tool asks for, after its name; empty where the list quotes the question."""
    form: Callable[[dict[str, Any], Any], forms.Form | None]
    """Makes, from the question's params and what was sent, the form to fill in; `None` for none. Raises `Invalid` for
    params that cannot be drawn."""
    declared: str = ""
    """Its word in the list of what a client declares."""
    instead: str = ""
    """What happens to such questions when the client does not declare it."""


def _answer_form(params: dict[str, Any], data: Any) -> forms.Form:
    schema = params.get("requestedSchema")
    return AnswerForm(form_fields(schema if isinstance(schema, dict) else {}), data)


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
            form=lambda params, data: DecisionForm(data),
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
"""An elicitation in url mode: the same kind on the wire, but something else for people."""


class Question(Protocol):
    """A question, whichever query it was read by."""

    @property
    def kind(self) -> QuestionKind:
        """Its kind."""

    @property
    def params(self) -> dict[str, Any]:
        """The params it was asked with."""


def words_of(question: Question) -> Words:
    """The words for this question."""
    page = question.kind is QuestionKind.ELICITATION and question.params.get("mode") == "url"
    return PAGE if page else WORDS[question.kind]


def of_clients() -> Iterator[tuple[QuestionKind, dict[str, Any], Words]]:
    """Each kind that a client may declare to answer, with the least params of such a question."""
    for kind in METHODS:
        yield kind, {}, WORDS[kind]
        if kind is QuestionKind.ELICITATION:
            yield kind, {"mode": "url"}, PAGE
