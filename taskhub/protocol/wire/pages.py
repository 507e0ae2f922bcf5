"""The page for the person: where a question is for people only, a client that opens addresses for its user
(`elicitation.url`) is asked to open the question's page in the console. Its answer says only whether it did, and
decides nothing: whoever opens the page signs in there, and may do what they always may.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from taskhub.core.records import OpenQuestion, QuestionKind, TaskRecord

MODE: Final[dict[str, Any]] = {"mode": "url"}
"""The part of an elicitation's params that tells which capability it needs."""


def pages(task: TaskRecord) -> tuple[OpenQuestion, ...]:
    """The open questions whose pages the client is asked to open: each once, until it has answered."""
    return tuple(question for question in task.questions if question.page)


def page_key(question: OpenQuestion) -> str:
    """The key of the request, where requests have keys. It is not the question's: an answer to one never counts for
    the other."""
    return f"page-{question.key}"


def question_path(task: TaskRecord, question: OpenQuestion) -> str:
    """The path of the question's page. It has no number of the question: those of a client would tell it how many
    questions of others came between."""
    return f"/inbox/task/{task.public_id}/?key={quote(question.key, safe='')}"


def page_params(task: TaskRecord, question: OpenQuestion, base: str) -> dict[str, Any]:
    """The params of the request to open the page; `base` is the hub's address for people."""
    return {**MODE, "message": _message(task, question), "url": base + question_path(task, question)}


def _message(task: TaskRecord, question: OpenQuestion) -> str:
    if question.kind is QuestionKind.APPROVAL:
        asked = f"{task.tool_name} needs an approval before it runs"
        does = "give or refuse it"
    else:
        asked = f"{task.tool_name} asks something that only people answer"
        does = "answer it"
    group = f" of the group {question.group}" if question.group else " who may"
    people = f"{question.quorum} people{group}" if question.quorum > 1 else f"Somebody{group}"
    return f"{asked}. {people} can {does} on this page, signed in there. Opening it decides nothing."
