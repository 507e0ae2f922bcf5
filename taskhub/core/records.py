"""Frozen records, the only data that rooms hand to each other.

Times are timezone-aware UTC; durations carry their unit in the name; ids named `id` are
internal, `public_id` is what the world sees. JSON payloads that are only passed on stay
text (`*_json`), so they can be spliced into a reply without being decoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from taskhub.core.policy import Policy
from taskhub.core.states import Audience, Door, OfferKind, QuestionKind, QuestionState, State, TaskMode


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something, for the audit: a name, the door, the peer's address."""

    name: str
    door: Door
    address: str = ""
    user_id: int | None = None
    context_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Principal:
    """The auth context a request acts for: (issuer, subject, client_id) in a tenant.

    `audiences` are the addresses the token was made for; empty when it holds at any address of
    this TaskHub.
    """

    tenant_id: int
    context_id: int
    name: str
    issuer: str
    subject: str
    client_id: str
    scopes: frozenset[str]
    anonymous: bool = False
    expires_at: datetime | None = None
    token_id: int | None = None
    audiences: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in human with the role in a tenant."""

    user_id: int
    username: str
    tenant_id: int
    role: str
    groups: frozenset[str] = frozenset()
    password_due: bool = False


@dataclass(frozen=True, slots=True)
class ToolRecord(Policy):
    """A tool as the catalogue and its policy describe it; `mode` and `at_least_once` are what is in force.

    `exposed_name` is the name on our wire (`core.names.exposed_name`), `name` the upstream's own.
    `definition` is the upstream's JSON, verbatim.
    """

    id: int
    server_id: int
    server_name: str
    name: str
    exposed_name: str
    definition: dict[str, Any]
    digest: str
    mode: TaskMode
    hint_mode: TaskMode | None
    at_least_once: bool
    server_away: bool = False
    """Whether its calls wait, since the server could not be reached (`domain.catalogue.breakers`)."""


@dataclass(frozen=True, slots=True)
class OfferRecord:
    """A prompt, a resource or a template that clients see. `key` is the upstream's own name or uri;
    `exposed_name` is what our wire calls it. `definition` is the upstream's JSON, verbatim."""

    id: int
    server_id: int
    server_name: str
    kind: OfferKind
    key: str
    exposed_name: str
    definition: dict[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server behind us, and what it said it can do."""

    id: int
    name: str
    capabilities: dict[str, Any]

    def can(self, *path: str) -> bool:
        """Whether it declared this capability; a nested flag must be true."""
        found: Any = self.capabilities
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found is True or isinstance(found, dict)


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """A question to be opened on a task."""

    key: str
    kind: QuestionKind
    params: dict[str, Any]
    audience: Audience
    group: str = ""
    quorum: int = 1
    upstream_key: str = ""
    due_seconds: int = 86_400


@dataclass(frozen=True, slots=True)
class NewTask:
    """Everything `domain.tasks.create.create_task` needs. The last six are for the 2025 wires: the session, the JSON of
    the request's id and of its progress token, whether the caller was given a handle, and, where the client chose the
    task's id, that id and how long the task is kept after its end."""

    tenant_id: int
    context_id: int
    tool: ToolRecord
    arguments: dict[str, Any]
    revision: str
    client_info: dict[str, Any] = field(default_factory=dict)
    client_capabilities: dict[str, Any] = field(default_factory=dict)
    trace: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] | None = None
    idempotency_key: str | None = None
    ttl_ms: int | None = 86_400_000
    poll_interval_ms: int = 1_000
    rerun_of: int | None = None
    session_id: int | None = None
    request_id: str | None = None
    progress_token: str | None = None
    handle: bool = False
    client_task_id: str | None = None
    keep_ms: int | None = None
    join_seconds: int | None = None
    """For a plain call: how long after its end the same call still joins it. `None`: it never does."""
    waiter: str | None = None
    """A random id of the caller that waits for it (`domain.tasks.callers`); `None` where none waits in a plain call."""
    join_session: int | None = None
    """Where callers cannot be told apart, the session whose calls alone are joined."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An open question as the wire needs it; `id` is missing where nobody needs it."""

    key: str
    kind: QuestionKind
    params: dict[str, Any]
    audience: Audience
    group: str
    quorum: int
    approvals: int
    id: int | None = field(default=None, compare=False)
    page: bool = field(default=False, compare=False)
    """It is for people only, and the client, which opens pages for its user, is asked to open the one where they answer
    it."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as every projection reads it. `result_json` lacks `resultType`."""

    id: int
    public_id: str
    revision: str
    state: State
    message: str
    progress: float | None
    total: float | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    ttl_ms: int | None
    poll_interval_ms: int
    result_json: str | None
    error_json: str | None
    is_error: bool
    cancel_requested_at: datetime | None
    version: int
    tool_name: str
    questions: tuple[OpenQuestion, ...]
    session_id: int | None = None
    progress_token: str | None = None
    handle: bool = False
    client_task_id: str | None = None
    keep_ms: int | None = None
    join_seconds: int | None = None
    left_at: datetime | None = None
    """When the caller of a plain call stopped waiting, if it has not had the result since."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a 2025 client: what it and the hub agreed on at `initialize`. It belongs to one auth context."""

    id: int
    public_id: str
    context_id: int
    version: str
    client_info: dict[str, Any]
    client_capabilities: dict[str, Any]
    log_level: str
    profile: str = ""
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Created:
    """The result of a creation; `existed` when an idempotency key found an earlier task."""

    task: TaskRecord
    existed: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A task a worker has taken: run it under `epoch`, which fences every later write.

    `answers` are those to the tool's questions so far, under the tool's own keys. `given` are answers that came with
    the call, for questions that the client may answer, once they are asked."""

    task_id: int
    public_id: str
    epoch: int
    tenant_id: int
    context_id: int
    server_id: int
    server_name: str
    tool_id: int
    tool_name: str
    arguments: dict[str, Any]
    answers: dict[str, Any] | None
    upstream_state: str | None
    client_capabilities: dict[str, Any]
    trace: dict[str, Any]
    question_audience: Audience | None
    run_seconds: int
    given: dict[str, Any] | None = None
    waited: float = 0.0
    """Seconds from when it could run until it was taken."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line a tool said while it ran: a log message or a progress note."""

    level: str
    text: str
    progress: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A log line read back; `id` orders lines within a task."""

    id: int
    level: str
    text: str
    progress: float | None
    total: float | None
    at: datetime


__all__ = [
    "Actor", "Audience", "Claim", "Created", "LogLine", "NewQuestion", "NewTask", "OfferKind", "OfferRecord",
    "OpenQuestion", "Person", "Principal", "QuestionKind", "QuestionState", "Session", "State", "StoredLine",
    "TaskMode", "TaskRecord", "ToolRecord", "Upstream",
]  # fmt: skip
