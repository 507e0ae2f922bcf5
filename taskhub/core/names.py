"""Names that two rooms must agree on without importing each other."""

from __future__ import annotations

from typing import Final

HINT_CHANNEL: Final = "taskhub"
"""The Postgres NOTIFY channel of all hints."""

HINT_SOCKET: Final = "ws/hints"
"""Where consoles are told what changed: the socket's path."""

QUEUE: Final = "taskhub"
"""The one procrastinate queue. Fixed and short: procrastinate builds channel names from it."""

WAKE_JOB: Final = "taskhub.run"
"""The procrastinate task that wakes the workers. Its name never changes across releases."""

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""In the `_meta` of every request since 2026-07-28: its presence tells that era from the one before."""

META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
"""In the `_meta` of results of that era: which server made them."""

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
IDEMPOTENCY_KEY: Final = "io.taskhub/idempotencyKey"
TASK_HEADER: Final = "TaskHub-Task"
"""The header of an answer whose caller is kept waiting for a task: the task's id."""
PROGRESS: Final = "io.taskhub/progress"
"""In the `_meta` of a task that reports numbers: `{"progress": 3, "total": 5}`; no `total` when unknown."""
TOOL_USE: Final = "claudecode/toolUseId"
"""In the `_meta` of a call by Claude Code: the id that the call has in its transcripts."""
MODE_HINT: Final = "taskhub/task"
"""A tool's own `_meta` hint: one of `core.states.TaskMode`."""

HUB_TOOL_PREFIX: Final = "taskhub_"
"""What the names of the hub's own tools begin with, and no other tool's on our wire."""

SCOPES: Final = ("tasks:call", "tasks:read", "tasks:answer", "tasks:cancel")

OAUTH_ISSUER: Final = "taskhub/oauth"
"""The issuer of contexts that come from our authorization server. A name and no address, so that clients keep their
tasks when TaskHub moves to another address."""

MAX_URI: Final = 1_024
"""Characters of a resource's uri or a template that are kept."""


def told_apart(server_name: str, name: str) -> str:
    """The name to use where an earlier server has `name`. If that is taken as well, it is called again with it."""
    return f"{server_name}.{name}"
