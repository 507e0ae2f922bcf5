"""Names that two rooms must agree on without importing each other."""

from __future__ import annotations

from typing import Final

HINT_CHANNEL: Final = "taskhub"
"""The Postgres NOTIFY channel of all hints."""

QUEUE: Final = "taskhub"
"""The one procrastinate queue. Fixed and short: procrastinate builds channel names from it."""

WAKE_JOB: Final = "taskhub.run"
"""The procrastinate task that wakes the workers. Its name never changes across releases."""

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
IDEMPOTENCY_KEY: Final = "io.taskhub/idempotencyKey"
PROGRESS: Final = "io.taskhub/progress"
"""In the `_meta` of a task that reports numbers: `{"progress": 3, "total": 5}`; no `total` when unknown."""
MODE_HINT: Final = "taskhub/task"
"""A tool's own `_meta` hint: `always`, `auto` or `never`."""

SCOPES: Final = ("tasks:call", "tasks:read", "tasks:answer", "tasks:cancel")

OAUTH_ISSUER: Final = "taskhub/oauth"
"""The issuer of contexts that come from our authorization server. A name and no address: who moves
TaskHub to another address keeps its tasks."""
