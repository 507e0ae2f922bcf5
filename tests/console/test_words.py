"""What the console says of a client: what it speaks, declares, and does not support."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from taskhub.console.words import described
from taskhub.core.names import TASKS_EXTENSION
from taskhub.domain.clients.dialects import ClientDialect
from taskhub.protocol.registry import REVISIONS

EXTENSION: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}
ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
HOSTS: dict[str, Any] = {"tasks": {"requests": {"elicitation": {"create": {}}}}}


def _of(revision: str, capabilities: dict[str, Any]) -> Any:
    return described(ClientDialect({"name": "program", "version": "1"}, revision, capabilities, datetime.now(UTC), 0))


@pytest.mark.parametrize(
    ("revision", "capabilities", "declares", "never"),
    [
        ("2026-07-28", {**ALL, **EXTENSION}, ("tasks extension", "forms", "pages", "sampling", "roots"), []),
        ("2026-07-28", ALL, ("forms", "pages", "sampling", "roots"), ["-32021"]),
        ("2026-07-28", {**EXTENSION, "elicitation": {}}, ("tasks extension", "forms"), ["Pages", "Sampling", "Roots"]),
        ("2026-07-28", {}, (), ["-32021", "Forms", "Pages", "Sampling", "Roots"]),
        ("2025-11-25", {**ALL, **HOSTS}, ("forms", "pages", "sampling", "roots", "tasks of its own"), []),
        ("2025-11-25", ALL, ("forms", "pages", "sampling", "roots"), ["“required”", "while connected"]),
        ("2025-11-25", {**ALL, "tasks": {}}, ("forms", "pages", "sampling", "roots"), ["while connected"]),
        ("2025-11-25", EXTENSION, (), ["“required”", "connected", "Forms", "Pages", "Sampling", "Roots"]),
        ("2025-06-18", {**ALL, **HOSTS}, ("forms", "sampling", "roots"), ["-32601", "Pages"]),
        ("2025-03-26", ALL, ("sampling", "roots"), ["-32601", "Forms", "Pages"]),
        ("sep-1686", ALL, ("forms", "pages", "sampling", "roots"), []),
        ("sep-2557", ALL, ("forms", "pages", "sampling", "roots"), []),
    ],
)
def test_what_a_client_never_gets_follows_from_what_it_speaks_and_declares(
    revision: str, capabilities: dict[str, Any], declares: tuple[str, ...], never: list[str]
) -> None:
    found = _of(revision, capabilities)
    assert found.declares == declares
    assert len(found.never) == len(never), found.never
    for words, part in zip(found.never, never, strict=True):
        assert part in words


def test_every_revision_has_a_name_for_people() -> None:
    for revision in REVISIONS:
        assert _of(revision, {}).speaks != revision
