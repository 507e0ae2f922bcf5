"""Requests to open a page: if a question is for people only, a client that can open addresses for its user (capability
`elicitation.url`) is asked to open the question's page in the console. The client's answer says only whether it opened
the page. On the page, the person signs in and decides, if their role allows it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from taskhub.core.records import OpenQuestion, QuestionKind, TaskRecord
from taskhub.domain.questions.kinds import checked_response, verdict_of

MODE: Final[dict[str, Any]] = {"mode": "url"}
"""The params of an elicitation that asks to open an address. `kinds.can_answer` reads from them which capability the
client needs."""


def pages(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions whose pages the client is now asked to open, without those whose request it has answered."""
    return tuple(question for question in task.questions if question.page)


def offered(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions whose pages the client is asked to open, now or since an earlier round, without those whose
    request it has answered."""
    return tuple(question for question in task.questions if question.page or question.offered)


def page_verdict(response: Any) -> str:
    """What the client says to a request to open a page: `accept`, `decline` or `cancel`. Raises `Invalid` for anything
    else."""
    return verdict_of(QuestionKind.ELICITATION, checked_response(QuestionKind.ELICITATION, MODE, response))


def page_key(question: OpenQuestion) -> str:
    """The key of the request to open the page, in revisions where requests have keys. It is not the key of the
    question, so that an answer to the request never counts as an answer to the question."""
    return f"page-{question.key}"


def question_path(task: TaskRecord, question: OpenQuestion) -> str:
    """The path of the question's page. It does not contain the question's id: from the ids of its questions a client
    could tell how many questions other clients were asked in between."""
    return f"/inbox/task/{task.public_id}/?key={quote(question.key, safe='')}"


def page_params(task: TaskRecord, question: OpenQuestion, base: str) -> dict[str, Any]:
    """The params of the request to open the page; `base` is the address of the console."""
    return {**MODE, "message": _message(task, question), "url": base + question_path(task, question)}


def _message(task: TaskRecord, question: OpenQuestion) -> str:
    several = question.kind is QuestionKind.APPROVAL and question.quorum > 1
    if question.kind is QuestionKind.APPROVAL:
        needs = f"{question.quorum} approvals" if several else "an approval"
        asked = f"{task.tool_name} needs {needs} before it runs"
        does = "give or refuse them" if several else "give or refuse it"
    elif question.kind is QuestionKind.OUTCOME:
        asked = f"Whether {task.tool_name} ran is not known, because its run was lost"
        does = "look, and say so"
    elif question.kind is QuestionKind.AUTHORIZATION:
        asked = f"{task.tool_name} cannot run before its server is authorized"
        does = "authorize it"
    else:
        asked = f"{task.tool_name} asks something that only people answer"
        does = "answer it"
    group = f"of the group {question.group}" if question.group else "with the permission"
    people = f"{'People' if several else 'Somebody'} {group}"
    return f"{asked}. {people} can {does} on this page, signed in there. Opening it decides nothing."
