"""The table of the kinds of questions that can be asked while a tool runs, and the functions that read it.

How a kind is worded and shown is in `console.questions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.states import Audience, QuestionKind
from taskhub.domain.questions.forms import checked_elicitation, form_fields, unfit
from taskhub.lib.addresses import deceit

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties of a kind of question. `params` are always those of its `method`."""

    method: str | None
    """The MCP method by which a server asks a question of this kind, and by which the hub asks a client; `None` for a
    kind that only people are asked."""
    check: Callable[[Object, Object], Object]
    """The answer (the second argument) reduced to what was asked for. Raises `Invalid`, which names the wrong field."""
    can_answer: Callable[[Object, Object], bool] = lambda capabilities, params: False
    """Whether a client with these capabilities may be asked a question with these params."""
    needs: Callable[[Object], Object] = lambda params: {}
    """The capabilities that a client must declare to be asked a question with these params, in the form that the client
    declares them."""
    problem: Callable[[Object], str] = lambda params: ""
    """Why a question of this kind cannot be asked, as text for people; empty if it can."""
    refusable: bool = False
    """Whether an answer has the field `action`, which says whether the question is accepted, declined or cancelled."""
    permission: str = "question.answer"
    """The permission that a person needs to answer it; see `core.permissions`."""


def _can_elicit(capabilities: Object, params: Object) -> bool:
    # `elicitation: {}` means forms only; url mode needs `elicitation.url`.
    declared = capabilities.get("elicitation")
    if not isinstance(declared, dict):
        return False
    if params.get("mode") == "url":
        return "url" in declared
    return not declared or "form" in declared


def modes_of(capabilities: Object) -> frozenset[str] | None:
    """The modes of elicitation that a client with these capabilities can serve; `None` if it serves no elicitation at
    all."""
    if not isinstance(capabilities.get("elicitation"), dict):
        return None
    return frozenset(mode for mode in ("form", "url") if _can_elicit(capabilities, {"mode": mode}))


def _elicitation_problem(params: Object) -> str:
    if params.get("mode") == "url":
        url = params.get("url")
        why = deceit(url) if isinstance(url, str) else "it is no text"
        return f"the tool asked to open an address that nobody should open: {why}" if why else ""
    try:
        form_fields(params.get("requestedSchema", {}))
    except Invalid as error:
        return f"the tool asked with a form nobody can draw: {error.message}"
    return ""


def _can_sample(capabilities: Object, params: Object) -> bool:
    declared = capabilities.get("sampling")
    return isinstance(declared, dict) and ("tools" not in params or "tools" in declared)


def _checked_sampling(params: Object, response: Object) -> Object:
    role, content, model = response.get("role"), response.get("content"), response.get("model")
    if role not in ("user", "assistant") or not isinstance(content, (dict, list)) or not isinstance(model, str):
        raise Invalid("A sampling answer has role, content and model.")
    return response


def _checked_roots(params: Object, response: Object) -> Object:
    roots = response.get("roots")
    if not isinstance(roots, list) or not all(
        isinstance(root, dict) and isinstance(root.get("uri"), str) for root in roots
    ):
        raise Invalid("A roots answer has a list of roots, each with a uri.")
    return response


def _never_answered(params: Object, response: Object) -> Object:
    raise Invalid("This question is decided by people, not answered.")


def _never_filled_in(params: Object, response: Object) -> Object:
    raise Invalid("Nobody answers this here: it is answered when the server has been authorized.")


KINDS: Final[Mapping[QuestionKind, Kind]] = MappingProxyType(
    {
        QuestionKind.ELICITATION: Kind(
            method="elicitation/create",
            check=checked_elicitation,
            can_answer=_can_elicit,
            needs=lambda params: {"elicitation": {"url": {}} if params.get("mode") == "url" else {"form": {}}},
            problem=_elicitation_problem,
            refusable=True,
        ),
        QuestionKind.SAMPLING: Kind(
            method="sampling/createMessage",
            check=_checked_sampling,
            can_answer=_can_sample,
            needs=lambda params: {"sampling": {"tools": {}} if "tools" in params else {}},
        ),
        QuestionKind.ROOTS: Kind(
            method="roots/list",
            check=_checked_roots,
            can_answer=lambda capabilities, params: isinstance(capabilities.get("roots"), dict),
            needs=lambda params: {"roots": {}},
        ),
        QuestionKind.APPROVAL: Kind(method=None, check=_never_answered, permission="question.approve"),
        QuestionKind.OUTCOME: Kind(method=None, check=_never_answered),
        QuestionKind.AUTHORIZATION: Kind(method=None, check=_never_filled_in),
    }
)

METHODS: Final[Mapping[QuestionKind, str]] = MappingProxyType(
    {kind: facts.method for kind, facts in KINDS.items() if facts.method is not None}
)
"""The MCP method of each kind of question that a server asks and a client can answer."""

BY_METHOD: Final[Mapping[str, QuestionKind]] = MappingProxyType({method: kind for kind, method in METHODS.items()})
"""The kind of question of each MCP method."""


def can_answer(capabilities: Object, kind: QuestionKind, params: Object) -> bool:
    """Whether a client with these capabilities may be asked this question (B26-62, T26-31)."""
    return KINDS[kind].can_answer(capabilities, params)


def audience_for(capabilities: Object, kind: QuestionKind, params: Object, policy: Audience | None) -> Audience:
    """Who may answer a question: as the policy says, or people and clients if it says nothing; only people if the
    client cannot answer."""
    if not can_answer(capabilities, kind, params):
        return Audience.OPERATOR
    return policy or Audience.EITHER


def model_may_answer(kind: QuestionKind, params: Object, policy: Audience | None) -> bool:
    """Whether a question that the client cannot be asked may go to the client's model, which answers with the hub's own
    tool. A form may if the policy leaves it to the client alone. With any other policy people are asked, who know more
    than a model guesses."""
    return policy is Audience.CLIENT and kind is QuestionKind.ELICITATION and params.get("mode") != "url"


def question_problem(kind: QuestionKind, params: Object) -> str:
    """Why this question cannot be asked, as text for people; empty if it can."""
    if why := unfit(params):
        return f"the tool asked something that nobody can be shown: {why}"
    return KINDS[kind].problem(params)


def checked_response(kind: QuestionKind, params: Object, response: Any) -> Object:
    """A client's or operator's answer to a question, reduced to what was asked for.

    Properties that a form did not ask for are dropped, since clients send them. Raises `Invalid`, which names the wrong
    field.
    """
    if not isinstance(response, dict):
        raise Invalid("An answer is an object.")
    return KINDS[kind].check(params, response)


def verdict_of(kind: QuestionKind, response: Object) -> str:
    """The verdict of a checked answer, for events and pages: the value of its field `action` (`accept`, `decline` or
    `cancel`), or the word `answer` for kinds whose answers have no such field."""
    return str(response["action"]) if KINDS[kind].refusable else "answer"
