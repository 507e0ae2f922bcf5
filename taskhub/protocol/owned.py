"""A caller's own tasks, by the ids it was given, and its answers to what they ask."""

from __future__ import annotations

import re
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.records import OpenQuestion, Principal, TaskRecord
from taskhub.domain.questions.answer import answer_question
from taskhub.domain.questions.kinds import checked_response
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.errors import INVALID_PARAMS, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.wire.tasks import for_client

_OURS: Final = re.compile(r"[A-Za-z0-9_-]{22,64}")


def task_id(params: dict[str, Any]) -> str:
    """`params.taskId`; -32602 unless it is a string (T25-35, T26-37)."""
    found = params.get("taskId")
    if not isinstance(found, str):
        raise WireError(INVALID_PARAMS, "taskId must be a string")
    return found


async def known_task(hub: Hub, principal: Principal, public_id: str, revision: str) -> TaskRecord | None:
    """The caller's task of this id, if it was made in this revision. Only ids of our own making
    reach the database: anything else is unknown by its shape."""
    if not _OURS.fullmatch(public_id):
        return None
    task = await hub.reads.run((principal.context_id, public_id))
    return task if task is not None and task.revision == revision else None


async def store_answers(hub: Hub, incoming: Incoming, task: TaskRecord, responses: dict[str, Any]) -> None:
    """Store the answers that fit an open question of the client. Raises `Invalid` with a pointer
    before anything is stored if one does not fit."""
    wanted: list[tuple[OpenQuestion, Any]] = [
        (question, responses[question.key]) for question in for_client(task) if question.key in responses
    ]
    for question, response in wanted:
        try:
            checked_response(question.kind, question.params, response)
        except Invalid as error:
            pointer = f"/inputResponses/{question.key}{error.data.get('pointer', '')}"
            raise Invalid(error.message, pointer=pointer) from None
        if jsonx.has_nul(response):
            raise Invalid("An answer cannot hold the character U+0000.", pointer=f"/inputResponses/{question.key}")
    actor = calls.actor_of(incoming)
    for question, response in wanted:
        await hub.lanes.run(answer_question, task.id, question, response, actor=actor)
