"""Checks for `manage.py doctor` and the settings page."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from taskhub.queries.health import failed_chores, live_workers
from taskhub.store.functions import difference, trigger_names
from taskhub.store.models import Server


def checks(has_secret: bool) -> list[tuple[str, bool, str]]:
    """(what, whether it is good, detail), in the order an operator would look."""
    found: list[tuple[str, bool, str]] = []
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int, current_setting('server_version')")
        number, version = cursor.fetchone()
        found.append(("Postgres version", number >= 150_000, f"{version} (15 or newer is needed)"))
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            cursor.execute("SELECT current_setting(%s)", [setting])
            (value,) = cursor.fetchone()
            found.append((setting, value == "on", f"{value} (off would lose acknowledged tasks in a crash)"))
        cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')")
        present = {row[0] for row in cursor.fetchall()}
        missing = sorted(trigger_names() - present)
        found.append(("guards", not missing, "all in place" if not missing else f"missing: {', '.join(missing)}"))
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        (superuser,) = cursor.fetchone()
        found.append(
            (
                "database role",
                not superuser,
                "a superuser, which no guard holds" if superuser else "an ordinary user",
            )
        )
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
    return found + [
        (f"server {server.name}", server.state == "ready", server.problem or server.state)
        for server in Server.objects.filter(enabled=True).order_by("name")
    ]
