"""The task state machine as data.

One table, checked by tests against the trigger in the database, the diagram in the docs
and every mapping (badge, wire, filter). The names of the states are not the protocol's,
because its revisions disagree about "completed" and "failed" (T26-26, T25-42).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The state of a task."""

    QUEUED = "queued"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    FINISHED = "finished"
    FAULTED = "faulted"
    CANCELLED = "cancelled"


TERMINAL: Final = frozenset({State.FINISHED, State.FAULTED, State.CANCELLED})

TRANSITIONS: Final[dict[str, frozenset[tuple[State, State]]]] = {
    # a worker claims the task
    "task.claimed": frozenset({(State.QUEUED, State.WORKING)}),
    # the task returns to the queue: its worker shuts down, has lost the lease or does not know the tool
    "task.released": frozenset({(State.WORKING, State.QUEUED), (State.INPUT_REQUIRED, State.QUEUED)}),
    # the tool or the hub asks a question
    "task.asked": frozenset({(State.WORKING, State.INPUT_REQUIRED), (State.QUEUED, State.INPUT_REQUIRED)}),
    # every question is answered: the tool is run again, or goes on if it still runs and waits
    "task.answered": frozenset({(State.INPUT_REQUIRED, State.QUEUED), (State.INPUT_REQUIRED, State.WORKING)}),
    # there is a result: the tool's, or the hub's own when an approver rejected the call or people ruled that it ran
    "task.finished": frozenset(
        {
            (State.WORKING, State.FINISHED),
            (State.INPUT_REQUIRED, State.FINISHED),
            (State.QUEUED, State.FINISHED),
        }
    ),
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
"""For each event name, the pairs of states (from, to) that it may record."""

PAIRS: Final = frozenset(pair for pairs in TRANSITIONS.values() for pair in pairs)


class OfferKind(StrEnum):
    """The kind of an offer: something that a server has besides tools."""

    PROMPT = "prompt"
    RESOURCE = "resource"
    TEMPLATE = "template"


class Role(StrEnum):
    """The role of a person in a tenant; `core/permissions.py` has its permissions."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


class TaskMode(StrEnum):
    """Whether the caller of a tool gets a handle of the task. A caller that cannot have a handle waits for the result;
    if the mode is `REQUIRED`, the caller is refused."""

    AUTO = "auto"
    """The caller gets a handle if there is no result after a short wait."""
    ALWAYS = "always"
    """The caller gets a handle at once."""
    NEVER = "never"
    """The caller gets no handle and waits for the result."""
    REQUIRED = "required"
    """The caller gets a handle at once, or an error: in the specification, a tool whose tasks are required. Only
    clients with tasks see the tool in the list."""


AT_ONCE: Final = frozenset({TaskMode.ALWAYS, TaskMode.REQUIRED})
"""The modes in which a caller that can have a handle gets it without a wait."""


class QuestionKind(StrEnum):
    """The kind of a question."""

    ELICITATION = "elicitation"
    SAMPLING = "sampling"
    ROOTS = "roots"
    APPROVAL = "approval"
    OUTCOME = "outcome"
    """Whether a tool ran, when its run was lost."""
    AUTHORIZATION = "authorization"
    """A server has to be authorized before the call can run; answered by the grant."""


class Audience(StrEnum):
    """Who may answer a question."""

    CLIENT = "client"
    OPERATOR = "operator"
    EITHER = "either"


class QuestionState(StrEnum):
    """The state of a question. It leaves `open` once, and then never changes. The exception is a decision on an
    approval that is undone in time."""

    OPEN = "open"
    ANSWERED = "answered"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"


class Door(StrEnum):
    """The way in which an actor reached TaskHub; *channel* in the console."""

    WEB = "web"
    API = "api"
    CLIENT = "client"
    POLICY = "policy"
    WORKER = "worker"
    CLI = "cli"
    SQL = "sql"
    SLACK = "slack"
