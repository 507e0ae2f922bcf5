"""Frozen records, the only data that rooms hand to each other.

Times are timezone-aware UTC; durations carry their unit in the name; ids named `id` are
internal, `public_id` is the id that clients see. JSON payloads that are only passed on stay
text (`*_json`), so they can be spliced into a reply without being decoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from taskhub.core.policy import Policy
from taskhub.core.rules import NO_VERDICT, NOBODY, SignedIn, Verdict
from taskhub.core.states import Audience, Door, OfferKind, QuestionKind, QuestionState, State, TaskMode


@dataclass(frozen=True, slots=True)
class Actor:
    """The person, client or process that does something, as the audit log names it. `address` is the network address
    from which the request came. `factor` is the id of the second factor that the person confirmed a moment ago, `None`
    if they did not. `for_user_id`: the person who is away, if the actor decides as their deputy; `name` then says so
    too."""

    name: str
    door: Door
    address: str = ""
    user_id: int | None = None
    context_id: int | None = None
    reason: str = ""
    factor: int | None = None
    for_user_id: int | None = None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A person's confirmation of their second factor: the id of its record, and the time in seconds since 1970."""

    factor: int
    at: float


@dataclass(frozen=True, slots=True)
class Principal:
    """The client behind a request: (issuer, subject, client_id) in a tenant, with its scopes.

    `audiences` are the addresses for which the token was issued; empty if it is valid at any
    address of this TaskHub.
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
    person: SignedIn = NOBODY


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in human, with one role in one tenant."""

    user_id: int
    username: str
    tenant_id: int
    role: str
    groups: frozenset[str] = frozenset()
    password_due: bool = False


@dataclass(frozen=True, slots=True)
class ToolRecord(Policy):
    """A tool of the catalogue with its policy; `mode` and `at_least_once` are the values in force.

    `exposed_name` is the name that clients use (`core.names.exposed_name`), `name` the server's own.
    `definition` is the server's JSON, verbatim.
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
    """Whether calls of the tool wait because the server's breaker is open (`domain.catalogue.breakers`)."""


@dataclass(frozen=True, slots=True)
class OfferRecord:
    """A prompt, a resource or a template that clients see. `key` is the server's own name or uri,
    `exposed_name` the name that clients use. `definition` is the server's JSON, verbatim."""

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
    """A server behind the hub, with the capabilities that it declared."""

    id: int
    name: str
    capabilities: dict[str, Any]

    def can(self, *path: str) -> bool:
        """Whether the server declared the capability at this path: an object, or `true`."""
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
class Place:
    """A worker that has a slot free for a call that is being made. `share`: the most calls of one client that the
    worker runs at once."""

    worker: str
    share: int


@dataclass(frozen=True, slots=True)
class NewTask:
    """The input of `domain.tasks.create.create_task`. Only for the 2025 revisions: `session_id`; `request_id` and
    `progress_token`, as JSON; and `handle`, whether the caller was given a handle. Only if the client chose the task's
    id: `client_task_id`, and `keep_ms`, how long the task is kept after its end."""

    tenant_id: int
    context_id: int
    tool: ToolRecord
    arguments: dict[str, Any]
    revision: str
    client_info: dict[str, Any] = field(default_factory=dict)
    client_capabilities: dict[str, Any] = field(default_factory=dict)
    trace: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] | None = None
    verdict: Verdict = NO_VERDICT
    """What the tenant's rules say of the call."""
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
    """For a plain call: seconds after the task's end in which the same call can still join it; `None` for never."""
    waiter: str | None = None
    """A random id of the plain call that waits for the task (`domain.tasks.callers`); `None` if no plain call waits."""
    join_session: int | None = None
    """The only session whose calls may be joined, if callers without a token share one client; else `None`."""
    permit_seconds: int | None = None
    """For a task that is only decided (`core.versions.DECIDED_ONLY`): for how many seconds the permit can be
    redeemed."""
    wanted_seconds: int | None = None
    """For how many seconds an approval of the call shall wait for people, if the rule allows more; `None`: as the rule
    says."""
    place: Place | None = None
    """A worker that would run the call in place; `None` for a call that goes through the queue."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An open question, with the fields that are sent to clients. `id` is `None` if it was not read."""

    key: str
    kind: QuestionKind
    params: dict[str, Any]
    audience: Audience
    group: str
    quorum: int
    approvals: int
    id: int | None = field(default=None, compare=False)
    page: bool = field(default=False, compare=False)
    """Whether the question is for people only, and the client is asked to open the page where they answer it."""
    by_tool: bool = field(default=False, compare=False)
    """Whether the client's model is to answer it with the hub's own tool, because the client cannot be asked."""
    offered: bool = field(default=False, compare=False)
    """Whether the client was asked in a round to open the page, and has not answered."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task, with the fields that all projections need. `result_json` is without `resultType`."""

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
    """When the caller of a plain call stopped waiting. `None` if it never did, or has had the result since."""
    ended_as: str = ""
    """How the task ended if its tool neither answered nor failed: `rejected`, `expired` or `denied`; else empty."""


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
    """The result of a creation. `existed`: whether `task` is an earlier one, found by its idempotency key or by
    joining. `in_place`: whether the worker of `NewTask.place` holds the task's first lease, and so must run the
    task."""

    task: TaskRecord
    existed: bool
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that a worker has claimed. Every write of this run names `epoch`. If the task has been claimed again
    since, the write changes nothing.

    `answers` are the answers to the tool's questions so far, by the tool's own keys. `given` are answers that came with
    the call, for questions that the tool may ask and the client may answer.
    """

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
    revision: str = ""
    """The revision that the caller speaks: a version or a proposal (`core.versions`)."""
    waited: float = 0.0
    """Seconds from when the task could run until a worker claimed it."""
    only_caller: bool = False
    """Whether a question that the client cannot answer is refused, by the tool's policy."""
    previewed: bool = False
    """Whether people may have seen a preview when they approved the call: the rule that decided has one, or people
    edited the call, and another rule asked then."""


@dataclass(frozen=True, slots=True)
class UpstreamTask:
    """A task of a server, as the server described it when it accepted a call. `poll_ms` is the interval at which the
    server wants to be polled, `None` if it named none. `here`: whether the task belongs to a process or session of the
    worker that made the call."""

    id: str
    revision: str
    status: str
    message: str
    poll_ms: int | None
    here: bool = False


@dataclass(frozen=True, slots=True)
class Poll:
    """A deferred call whose poll a worker has taken. Every write of this poll names `turn`. If another worker has taken
    the poll since, the write changes nothing."""

    claim: Claim
    upstream_id: str
    revision: str
    status: str
    turn: int
    poll_ms: int
    message: str
    """The message of the hub's task."""
    cancelling: bool
    """Whether the server's task is to be cancelled."""
    ended: bool
    """Whether the hub's task has ended. Then the server's task is cancelled, and nothing else happens."""
    overdue: bool
    """Whether the time is over that the server gets to cancel its task."""
    ran_seconds: float
    """Seconds that the call has run, without the time during which people were asked."""
    open_keys: frozenset[str]
    """The server's keys of its questions that are open."""
    answers: dict[str, Any]
    """The answers to the server's questions, by its own keys."""
    errors: dict[str, dict[str, Any]]
    """The JSON-RPC errors that the client sent in place of answers, by the server's keys."""
    used_keys: frozenset[str]
    """The hub's keys of all questions of the task so far."""
    session: str = field(default="", repr=False)
    """The id of the session at an HTTP server in which the server's task was made; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line a tool said while it ran: a log message or a progress note."""

    level: str
    text: str
    progress: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A `LogLine` as stored; `id` orders the lines of a task."""

    id: int
    level: str
    text: str
    progress: float | None
    total: float | None
    at: datetime


__all__ = [
    "Actor", "Audience", "Claim", "Created", "LogLine", "NewQuestion", "NewTask", "OfferKind", "OfferRecord",
    "OpenQuestion", "Person", "Poll", "Principal", "QuestionKind", "QuestionState", "Session", "State", "StoredLine",
    "TaskMode", "TaskRecord", "ToolRecord", "Upstream", "UpstreamTask",
]  # fmt: skip
