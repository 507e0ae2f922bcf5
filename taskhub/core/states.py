"""The task state machine as data.

One table, checked by tests against the trigger in the database, the diagram in the docs
and every mapping (badge, wire, filter). The words are ours on purpose: the protocol
revisions disagree about "completed" and "failed" (T26-26, T25-42).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a task stands."""

    QUEUED = "queued"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    FINISHED = "finished"
    FAULTED = "faulted"
    CANCELLED = "cancelled"


TERMINAL: Final = frozenset({State.FINISHED, State.FAULTED, State.CANCELLED})

TRANSITIONS: Final[dict[str, frozenset[tuple[State, State]]]] = {
    # a worker takes it
    "task.claimed": frozenset({(State.QUEUED, State.WORKING)}),
    # a worker gives it back: shutdown, lost lease, unknown tool
    "task.released": frozenset({(State.WORKING, State.QUEUED), (State.INPUT_REQUIRED, State.QUEUED)}),
    # the tool or the hub asks somebody
    "task.asked": frozenset({(State.WORKING, State.INPUT_REQUIRED), (State.QUEUED, State.INPUT_REQUIRED)}),
    # every open question has its answer: run again, or go on where the tool waits
    "task.answered": frozenset({(State.INPUT_REQUIRED, State.QUEUED), (State.INPUT_REQUIRED, State.WORKING)}),
    # a result: from the tool, or the hub's own words when an approver said no
    "task.finished": frozenset({(State.WORKING, State.FINISHED), (State.INPUT_REQUIRED, State.FINISHED)}),
    "task.faulted": frozenset(
        {(State.QUEUED, State.FAULTED), (State.WORKING, State.FAULTED), (State.INPUT_REQUIRED, State.FAULTED)}
    ),
    "task.cancelled": frozenset(
        {
            (State.QUEUED, State.CANCELLED),
            (State.WORKING, State.CANCELLED),
            (State.INPUT_REQUIRED, State.CANCELLED),
        }
    ),
}
"""Event name: the (from, to) pairs it may record."""

PAIRS: Final = frozenset(pair for pairs in TRANSITIONS.values() for pair in pairs)


class OfferKind(StrEnum):
    """What a server offers besides tools."""

    PROMPT = "prompt"
    RESOURCE = "resource"
    TEMPLATE = "template"


class Role(StrEnum):
    """What a person may do in a tenant; see `core/permissions.py`."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


class TaskMode(StrEnum):
    """Whether a tool's caller gets a task handle. A caller that cannot have one waits, or is refused by `required`."""

    AUTO = "auto"
    """After a short wait."""
    ALWAYS = "always"
    """At once."""
    NEVER = "never"
    """Not at all: the caller waits for the result."""
    REQUIRED = "required"
    """At once, or nothing: what the specification calls a task-required tool. Only callers with tasks see it."""


AT_ONCE: Final = frozenset({TaskMode.ALWAYS, TaskMode.REQUIRED})
"""The modes that hand out a handle without waiting, where there can be one."""


class QuestionKind(StrEnum):
    """What is asked."""

    ELICITATION = "elicitation"
    SAMPLING = "sampling"
    ROOTS = "roots"
    APPROVAL = "approval"


class Audience(StrEnum):
    """Who may answer a question."""

    CLIENT = "client"
    OPERATOR = "operator"
    EITHER = "either"


class QuestionState(StrEnum):
    """Where a question stands; `open` is left once."""

    OPEN = "open"
    ANSWERED = "answered"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"


class Door(StrEnum):
    """How an actor came in."""

    WEB = "web"
    API = "api"
    CLIENT = "client"
    POLICY = "policy"
    WORKER = "worker"
    CLI = "cli"
    SQL = "sql"
