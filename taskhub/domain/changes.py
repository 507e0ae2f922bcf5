"""Converts domain records to SQL parameters, and SQLSTATE codes to domain errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import psycopg

from taskhub.core.errors import Refused
from taskhub.core.records import Actor, NewQuestion
from taskhub.domain.hints.announce import announce
from taskhub.lib import jsonx
from taskhub.store.statements import Statement

R = TypeVar("R")

_REFUSALS = {
    "TH001",
    "TH002",
    "TH003",
    "TH004",
    "TH005",
    "TH006",
    "TH007",
    "TH013",
    "TH016",
    "TH018",
    "TH019",
    "TH020",
}


def who(actor: Actor) -> str:
    """The actor as JSON text, for the setting `th.who` that triggers read."""
    found: dict[str, object] = {
        "name": actor.name,
        "door": actor.door,
        "address": actor.address,
        "user_id": actor.user_id,
        "context_id": actor.context_id,
        "reason": actor.reason,
    }
    if actor.factor is not None:
        found["factor"] = actor.factor
    if actor.for_user_id is not None:
        found["for"] = actor.for_user_id
    return jsonx.encode(found).decode()


def questions(asked: Sequence[NewQuestion]) -> list[dict[str, Any]]:
    """New questions as JSON objects, for the database function `th_open_questions`."""
    return [
        {
            "key": question.key,
            "upstream_key": question.upstream_key,
            "kind": question.kind,
            "params": jsonx.repaired(question.params),
            "audience": question.audience,
            "group": question.group,
            "quorum": question.quorum,
            "due_seconds": question.due_seconds,
        }
        for question in asked
    ]


def change(statement: Statement[R], task_id: int | None = None, /, **values: object) -> R:
    """Run a statement that changes something and return its result. Announces the task `task_id`, if given; after a
    change of several tasks the caller announces them.

    Raises `Refused` or `Unavailable`. Any other database error is a bug and is raised unchanged."""
    try:
        found = statement(**values)
    except psycopg.Error as error:
        if error.sqlstate in _REFUSALS:
            raise Refused(error.diag.message_primary or str(error)) from None
        raise
    if task_id is not None:
        announce(task_id)
    return found
