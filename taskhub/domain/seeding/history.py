"""A made-up history, for trials of a hub as it is after a month of use. Its rows and events are like real ones, and are
sealed like real ones. Set-based statements write them, while the guards that let tasks begin only in their first states
are off."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import transaction

from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.core.versions import Version
from taskhub.domain.audit.seal import seal_events
from taskhub.domain.catalogue.sync import Listed, connect_server, store_snapshot
from taskhub.domain.catalogue.writes import set_server_enabled
from taskhub.domain.clients.contexts import client_context
from taskhub.lib import jsonx
from taskhub.store import statements
from taskhub.store.bulk import tasks_as_given, tidy
from taskhub.store.models import Server, Tool

DAYS: Final = 30
LIVE: Final = 60
"""The most tasks of a history that have not ended, however long it is."""

CHUNK: Final = 1_250
"""How many tasks are made up in one transaction. Their events make one seal of the size that is usual in a busy hub."""

MADE_UP: Final = "made-up-"
"""The prefix of the names of made-up clients and servers."""

CLIENTS: Final = ("billing", "support", "research", "release", "reports", "onboarding", "search", "night-shift")
TOOLS: Final = {
    "files": ("read_file", "write_file", "list_folder", "find_text"),
    "tickets": ("open_ticket", "close_ticket", "find_ticket"),
    "builds": ("build", "deploy", "roll_back"),
}
_VOCABULARY: Final = (
    "account address agree amount answer archive backup balance batch branch budget cache call card change check client"
    " cluster column commit company contract copy country create credit customer data day delay delete deliver deploy"
    " device disk document draft east email engine error event export file find folder form garden green group health"
    " history house image import index invoice item journal key kitchen label language late ledger letter library limit"
    " line list log machine mail market measure member merge message meter minute mirror model month morning network"
    " north note notice number office order owner package page paper part payment person phone place plan price print"
    " project queue quota rate record region release repair reply report request reset result review river roll room"
    " route rule salary sample schedule school search server shift ship signal site snapshot source south stamp state"
    " station stock street summary supply table task team test ticket time tool total train transfer tree update user"
    " value vendor version volume warehouse water weather week west window winter worker yellow zone"
)
_ACTOR: Final = Actor(name="manage.py", door=Door.CLI, reason="Made up for a trial")
_REAL = statements.maybe("real_client", str)
_NEWEST = statements.maybe("newest_made_up", datetime)
_TASKS = statements.one("seed_tasks", tuple[int, int])
_ATTEMPTS = statements.none("seed_attempts")
_DECISIONS = statements.none("seed_decisions")
_PEOPLE = statements.none("seed_people")
_LINES = statements.none("seed_lines")
_EVENTS = statements.one("seed_events", int)


def seed_history(tenant_id: int, tasks: int, *, report: Callable[[int, int], None]) -> tuple[int, int]:
    """Make up `tasks` tasks, spread over the last `DAYS` days, or over the time since the newest made-up task. Returns
    how many tasks and events were added. All events that can be sealed are sealed. After each transaction, `report` is
    called with the numbers of tasks and events so far.

    Raises `Refused` if the tenant has tasks of a client that is neither made up nor the demo's: in one audit log,
    made-up events could not be told from real ones."""
    if client := _REAL(tenant=tenant_id, made_up=MADE_UP):
        raise Refused(
            f"This hub has tasks of its own, of the client {client}: a history is made up only in an empty hub or the"
            " demo's, because afterwards the audit log could not tell what happened from what did not."
        )
    until = datetime.now(UTC)
    start = max(
        _NEWEST(tenant=tenant_id, made_up=MADE_UP) or until - timedelta(days=DAYS), until - timedelta(days=DAYS)
    )
    with transaction.atomic():
        contexts, tools = _clients(tenant_id), _tools(tenant_id)
        _PEOPLE(tenant=tenant_id, since=start)
    live = min(LIVE, tasks // 10)
    # The live tasks are the newest, so that none has expired.
    last = until - min(timedelta(minutes=20), (until - start) / 10)
    parts = [(start + (last - start) * (n / (tasks - live)), n) for n in range(0, tasks - live, CHUNK)]
    events = done = 0
    for begin, first in [*parts, (last, tasks - live)]:
        alive = first == tasks - live
        count = min(CHUNK, tasks - first if alive else tasks - live - first)
        if not count:
            continue
        span = (until - last) / live if alive else (last - start) / (tasks - live)
        with tasks_as_given():
            low, high = _TASKS(
                tenant=tenant_id,
                contexts=contexts,
                tools=tools,
                words=_VOCABULARY.split(),
                start=begin,
                step=span.total_seconds(),
                until=until,
                count=count,
                live=alive,
            )
            _ATTEMPTS(low=low, high=high)
            _DECISIONS(low=low, high=high)
            _LINES(low=low, high=high)
            events += _EVENTS(low=low, high=high)
        seal_events()
        done += count
        report(done, events)
    while seal_events():
        pass
    tidy()
    return done, events


def _clients(tenant_id: int) -> list[int]:
    """The ids of the made-up clients, repeated so that the first gets 30 % of the calls and the others share the
    rest."""
    first, *others = [client_context(tenant_id, f"{MADE_UP}{name}") for name in CLIENTS]
    return [first] * 3 * len(others) + others * 7


def _tools(tenant_id: int) -> list[int]:
    """The ids of the made-up tools. Their servers are disabled, because there is nothing that workers could connect
    to."""
    for server, names in TOOLS.items():
        if Server.objects.filter(tenant_id=tenant_id, removed_at=None, name=f"{MADE_UP}{server}").exists():
            continue
        made = connect_server(
            tenant_id=tenant_id, name=f"{MADE_UP}{server}", transport="python", target="made.up:server", actor=_ACTOR
        )
        store_snapshot(made, protocol=Version.MCP_2026_07_28, info={}, tools=[_listed(name) for name in names])
        set_server_enabled(tenant_id=tenant_id, server_id=made, enabled=False, actor=_ACTOR)
    known = Tool.objects.filter(server__tenant_id=tenant_id, server__name__startswith=MADE_UP).order_by("id")
    return [int(key) for key in known.values_list("id", flat=True)]


def _listed(name: str) -> Listed:
    definition = {
        "name": name,
        "description": "Made up for a trial.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }
    return Listed(
        name=name,
        definition=definition,
        digest=hashlib.sha256(jsonx.encode(definition)).hexdigest(),
        rejected="",
        hint_mode=None,
        read_only=False,
        idempotent=False,
    )
