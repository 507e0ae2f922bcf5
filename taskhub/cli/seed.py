"""Demo data: real calls of the demo server's tools, run by a worker: an agent at work, a deployment that
waits for approval, a survey that waits for an answer, a failure."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from taskhub.core.errors import Refused
from taskhub.core.records import Actor, NewTask
from taskhub.core.rules import Then
from taskhub.core.states import Door
from taskhub.core.versions import Version
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.domain.clients.contexts import client_context
from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.clients.verdicts import caller
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import create_task

STORY: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("agent-a", "word_count", {"text": "To be, or not to be, that is the question."}),
    ("agent-a", "echo", {"text": "Hello from the demo"}),
    ("agent-b", "hash_files", {"path": "docs"}),
    ("agent-b", "countdown", {"seconds": 3, "steps": 6}),
    ("agent-a", "deploy", {"service": "web", "version": "1.4.1", "environment": "staging"}),
    ("agent-a", "deploy", {"service": "web", "version": "1.4.2", "environment": "production"}),
    ("agent-b", "deploy", {"service": "billing", "version": "0.9.0", "environment": "production"}),
    ("agent-a", "survey", {}),
    ("agent-b", "fail", {"kind": "tool_error"}),
    ("agent-b", "fail", {"kind": "protocol_error"}),
    ("agent-b", "countdown", {"seconds": 300, "steps": 60}),
)
"""The calls, as (client, tool, arguments). The last one is cancelled while it runs."""

WAIT_SECONDS = 20.0


def seed() -> int:
    """Create those tasks of `STORY` that do not exist yet, and return how many tasks `STORY` has. Raises `Refused` if
    the demo server's tools are not listed within `WAIT_SECONDS`, for example because no worker runs; or if a rule
    denies a call."""
    tenant = default_tenant()
    wanted = {tool for _, tool, _ in STORY}
    deadline = time.monotonic() + WAIT_SECONDS
    while not wanted <= set((tools := catalogue(tenant.pk)).by_name):
        if time.monotonic() > deadline:
            raise Refused("The demo server's tools are not listed: is a worker running, and the demo server added?")
        time.sleep(0.2)
        forget_catalogues()
    for number, (client, name, arguments) in enumerate(STORY, 1):
        context_id = client_context(tenant.pk, client)
        tool, known = tools.by_name[name], caller(tenant.pk, context_id).client
        verdict = tools.rules.decide(known, tool, arguments, program=client, now=datetime.now(UTC))
        if verdict.then is Then.DENY and verdict.rule is not None:
            raise Refused(f"The rule {verdict.rule.name} denies {name}, which the demo calls.")
        created = create_task(
            NewTask(
                tenant_id=tenant.pk,
                context_id=context_id,
                tool=tool,
                arguments=arguments,
                verdict=verdict,
                revision=Version.MCP_2026_07_28,
                client_info={"name": client, "version": "demo"},
                client_capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}},
                idempotency_key=f"seed-{number}",
            ),
            Actor(name=client, door=Door.CLI, context_id=context_id),
        )
        if number == len(STORY) and not created.existed:
            request_cancel(created.task.id, actor=Actor(name="seed", door=Door.CLI, reason="Part of the demo"))
    return len(STORY)
