"""Checks for `manage.py doctor` and the settings page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from taskhub.domain.audit.reads import verifications
from taskhub.domain.audit.seal_reads import misplaced, seal_state, unsealed
from taskhub.domain.catalogue.reads import lost
from taskhub.domain.feed.reading import feed_lag
from taskhub.domain.health.checks import disk_is_full, failed_chores, only_reads
from taskhub.domain.notices import people, targets
from taskhub.domain.notices.channels import Channel, has_push, is_on
from taskhub.domain.notices.outbox import backlog, failing_webhooks
from taskhub.domain.workers.reads import live_workers
from taskhub.lib.apprises import has_apprise
from taskhub.lib.signs import spelled
from taskhub.store import session, statements
from taskhub.store.functions import difference, trigger_names
from taskhub.store.models import NoticeAddress, PushBrowser, Server
from taskhub.store.room import FULL, ONLY_READS


@dataclass(frozen=True, slots=True)
class _Standing:
    """Settings and state of the database."""

    number: int
    version: str
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    triggers: tuple[str, ...]
    superuser: bool


SHARED = (
    "two connections share one, as behind a PgBouncer that pools transactions or statements: settings, prepared"
    " statements and hints get lost. Set pool_mode = session there. Nothing else was looked at"
)
LATE_SECONDS: Final = 300.0
"""Seconds after which it is a failure that an event was not looked at, or a message to a person not taken."""
NAMED: Final = 5
"""The most webhooks that do not answer and are named. Of the others, the doctor says only how many there are."""
FULL_DAYS: Final = 3
"""Age in days from which on the doctor says how old the last full verification is. A worker makes a full verification
every night."""

_VERIFY: Final = "a worker reads all of it every night at 02:23 UTC; now, `manage.py audit verify --full` does"
_STANDING = statements.one("database_standing", _Standing)


def checks(has_secret: bool) -> list[tuple[str, bool, str]]:
    """The results of all checks, as (name, whether it passed, detail), in the order in which an operator would look."""
    now = _STANDING()
    missing = sorted(trigger_names() - set(now.triggers))
    found = [
        ("Postgres version", now.number >= 150_000, f"{now.version} (15 or newer is needed)"),
        *_session(),
    ]
    if not found[-1][1]:
        return found  # further statements may run in another session, without our prepared statements
    found += [
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
    full = disk_is_full()
    found.append(("disk", not full, FULL if full else "a megabyte can be written"))
    reads = only_reads()
    found.append(("writes", not reads, ONLY_READS if reads else "the database takes them"))
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
    found += [_audit_seals(), _audit_log(), _notifications(), *_to_people(), _web_push(), _apprise()]
    return found + [
        _server(server, has_secret=has_secret) for server in Server.objects.filter(enabled=True).order_by("name")
    ]


def _session() -> list[tuple[str, bool, str]]:
    """Checks of the database session: its settings, `jit`, and whether each connection has a session of its own."""
    asked = session.begun()
    held = session.found(list(asked))
    differing = [
        f"{name} is {held[name] or 'not set'}, wanted {value}" for name, value in asked.items() if held[name] != value
    ]
    compiled = held["jit"] != "off"
    try:
        shared = session.is_shared()
        sharing = SHARED if shared else "each connection has one of its own"
    except OperationalError as error:
        shared, sharing = True, f"no second connection could be made: {str(error).strip().splitlines()[0]}"
    return [
        ("session settings", not differing, "; ".join(differing) or "as wanted"),
        (
            "jit",
            not compiled,
            "on, which costs each call up to a second before Postgres 18; see `options=` in DATABASE_URL"
            if compiled
            else "off in our sessions",
        ),
        ("sessions", not shared, sharing),
    ]


def _server(server: Server, *, has_secret: bool) -> tuple[str, bool, str]:
    if has_secret and (unreadable := lost(server)):
        return (f"server {server.name}", False, unreadable)
    return (f"server {server.name}", server.state == "ready", server.problem or server.state)


def _notifications() -> tuple[str, bool, str]:
    """Whether notices are queued in time, and webhooks answer."""
    late, outbox = feed_lag(), backlog()
    waits = f"{outbox.due} {'message waits' if outbox.due == 1 else 'messages wait'}"
    if late > LATE_SECONDS:
        words = f"events of {late / 60:.0f} min ago are not read yet: is a worker alive, or a transaction open so long?"
        return ("notifications", False, words)
    if outbox.failing:
        named = [spelled(f"{one.name} ({one.problem})" if one.problem else one.name) for one in failing_webhooks(NAMED)]
        more = f", and {outbox.failing - len(named)} more" if outbox.failing > len(named) else ""
        words = f"webhooks that do not answer: {', '.join(named)}{more}; {waits}"
        return ("notifications", False, words)
    return ("notifications", True, waits if outbox.due else "nothing waits")


def _to_people() -> list[tuple[str, bool, str]]:
    """For each channel to people, whether it takes its messages in time."""
    found = []
    for one in people.backlog():
        waits = f"{one.due} {'message waits' if one.due == 1 else 'messages wait'}" if one.due else "nothing waits"
        late = one.failing or one.oldest_seconds > LATE_SECONDS
        words = f"{waits}, {one.failing} tried in vain, the oldest for {one.oldest_seconds / 60:.0f} min"
        if one.problem:
            words += f"; the latest: {spelled(one.problem)}"
        found.append((f"messages by {one.channel}", not late, words if late else waits))
    return found


def _web_push() -> tuple[str, bool, str]:
    """Whether browsers can be notified. If they cannot be, that is a failure only if some browser is to be notified."""
    if is_on(Channel.PUSH):
        return ("web push", True, "on")
    lacks = "the extra push is not installed (uv sync --extra push)" if not has_push() else "PUBLIC_URL is not set"
    return ("web push", not PushBrowser.objects.exists(), f"off: {lacks}")


def _apprise() -> tuple[str, bool, str]:
    """Whether people can be reached by services of Apprise. If no service is named, that is a failure only if somebody
    has an address at one."""
    if not settings.TASKHUB_APPRISE_URLS:
        reached = NoticeAddress.objects.filter(channel=Channel.APPRISE).exclude(address="").exists()
        return ("apprise", not reached, "off: TASKHUB_APPRISE_URLS is not set")
    if not has_apprise():
        return ("apprise", False, "off: the extra apprise is not installed (uv sync --extra apprise)")
    if faults := targets.faults():
        return ("apprise", False, "; ".join(f"{name}: {why}" for name, why in faults.items()))
    return ("apprise", True, f"on: {', '.join(targets.names())}")


def _audit_seals() -> tuple[str, bool, str]:
    """Whether new events are being sealed."""
    now = seal_state()
    problem = misplaced(now, now.known_in) or unsealed(now)
    sealed = f"last sealed {now.sealed_at:%Y-%m-%d %H:%M %Z}" if now.sealed_at else "nothing is sealed yet"
    return ("audit seals", not problem, problem or sealed)


def _audit_log() -> tuple[str, bool, str]:
    """The result of the last verification. If the last full verification is old, the check passes, and its detail says
    so."""
    last = verifications()
    if last.at is None:
        return ("audit log", True, f"never verified: {_VERIFY}")
    if not last.ok:
        return ("audit log", False, f"verification failed {last.at:%Y-%m-%d %H:%M %Z}: {last.problem}")
    verified = f"verified {last.at:%Y-%m-%d %H:%M %Z}, in full"
    if last.in_full_at is None:
        return ("audit log", True, f"{verified} never: {_VERIFY}")
    verified += f" {last.in_full_at:%Y-%m-%d %H:%M %Z}"
    days = (datetime.now(UTC) - last.in_full_at).days
    return ("audit log", True, verified if days < FULL_DAYS else f"{verified}, {days} days ago: {_VERIFY}")
