"""Checks for `manage.py doctor` and the settings page."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from taskhub.queries.audit import verifications
from taskhub.queries.health import failed_chores, live_workers
from taskhub.store import statements
from taskhub.store.functions import difference, trigger_names
from taskhub.store.models import Server


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the database says of itself."""

    number: int
    version: str
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    triggers: tuple[str, ...]
    superuser: bool


_STANDING = statements.one("database_standing", _Standing)


def checks(has_secret: bool) -> list[tuple[str, bool, str]]:
    """(what, whether it is good, detail), in the order an operator would look."""
    now = _STANDING()
    missing = sorted(trigger_names() - set(now.triggers))
    found = [
        ("Postgres version", now.number >= 150_000, f"{now.version} (15 or newer is needed)"),
        *(
            (setting, value == "on", f"{value} (off would lose acknowledged tasks in a crash)")
            for setting, value in (
                ("fsync", now.fsync),
                ("synchronous_commit", now.synchronous_commit),
                ("full_page_writes", now.full_page_writes),
            )
        ),
        ("guards", not missing, "all in place" if not missing else f"missing: {', '.join(missing)}"),
        (
            "database role",
            not now.superuser,
            "a superuser, which no guard holds" if now.superuser else "an ordinary user",
        ),
    ]
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    found.append(("migrations", not pending, f"{len(pending)} pending" if pending else "up to date"))
    differs = "" if pending else difference()
    found.append(("functions", not differs, differs or "those of this version"))
    found.append(("secret key", has_secret, "set" if has_secret else "SECRET_KEY is not set"))
    workers = live_workers()
    found.append(("workers", workers > 0, f"{workers} alive"))
    failed = failed_chores()
    words = f"failed, see the worker's log: {', '.join(failed)}" if failed else "none failed"
    found.append(("chores", not failed, words))
    found.append(_audit_log())
    return found + [
        (f"server {server.name}", server.state == "ready", server.problem or server.state)
        for server in Server.objects.filter(enabled=True).order_by("name")
    ]


def _audit_log() -> tuple[str, bool, str]:
    """As it was found by whoever verified it last: never verified is no fault."""
    last = verifications()
    if last.at is None:
        return ("audit log", True, "never verified: run `manage.py audit verify`")
    full = f"{last.in_full_at:%Y-%m-%d %H:%M %Z}" if last.in_full_at else "never"
    if not last.ok:
        return ("audit log", False, f"broken, as of {last.at:%Y-%m-%d %H:%M %Z}: {last.problem}")
    return ("audit log", True, f"verified {last.at:%Y-%m-%d %H:%M %Z}, in full {full}")
