"""What a list costs does not depend on how much it shows: as many statements for thirty rows as for one."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.records import Actor, LogLine, Person
from taskhub.core.states import Door
from taskhub.domain.audit import reads as audit
from taskhub.domain.catalogue import reads as servers
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.domain.clients import reads as clients
from taskhub.domain.clients.tokens import issue_token
from taskhub.domain.health.checks import backlog
from taskhub.domain.people import settings
from taskhub.domain.questions import inbox
from taskhub.domain.tasks import detail, listing, run, stats
from taskhub.domain.tasks import reads as tasks
from taskhub.domain.workers import reads as workers
from taskhub.store.models import Server, Worker
from tests.domain.cost import statements
from tests.factories import (
    WORKER,
    claim_task,
    make_context,
    make_person,
    make_question,
    make_server,
    make_task,
    make_tenant,
    make_tool,
)

pytestmark = pytest.mark.django_db
ROOT = Actor(name="root", door=Door.CLI)


class World:
    """A tenant that grows row by row in every table there is a list of."""

    def __init__(self) -> None:
        self.tenant = make_tenant()
        self.admin: Person = make_person("admin", self.tenant)
        self.context = make_context(self.tenant)
        self.tool = make_tool(make_server(self.tenant))
        self.long = make_task(self.context, self.tool, arguments={"long": "story"})
        self.pairs: list[tuple[int, str]] = []

    def grow(self) -> None:
        claim = claim_task(self.long)
        run.note(claim, [LogLine("info", "line")])
        run.release(claim, started=False, delay_seconds=0, reason="again", actor=WORKER)
        make_tool(make_server(self.tenant))
        make_tool(make_server(self.tenant), exposed_name=f"x{len(self.pairs)}")
        another = make_tool(_server_of(self.tool.server_id))
        asked = make_task(self.context, another, state="input_required", question=make_question())
        faulted = make_task(make_context(self.tenant), self.tool, state="faulted")
        self.pairs += [(self.context.pk, asked.public_id), (self.context.pk, faulted.public_id)]
        issue_token(tenant_id=self.tenant.pk, client=self.context.name, actor=ROOT)
        issue_token(tenant_id=self.tenant.pk, client="ci", actor=ROOT)
        make_person("approver", self.tenant, groups=[f"group {len(self.pairs)}"])
        worker = f"worker-{len(self.pairs)}"
        Worker.objects.create(name=worker, host="h", pid=1, version="1", slots=1, heartbeat_at=timezone.now())
        claim_task(make_task(self.context, self.tool), worker)

    def lists(self) -> dict[str, Callable[[], Sized]]:
        """Every list, as what gives its rows."""
        home, ours = self.tenant.pk, listing.TaskFilter(tab="faulted", tool=self.tool.exposed_name)
        newest = audit.newest_event_id(home)
        text = audit.EventFilter(text="e")

        def story() -> detail.TaskDetail:
            found = detail.task_detail(home, self.long.public_id)
            assert found is not None
            return found

        return {
            "tasks": lambda: listing.task_page(home, listing.TaskFilter()).rows,
            "tasks, filtered": lambda: listing.task_page(home, ours).rows,
            "tools to choose": lambda: listing.choices(home).tools,
            "owned tasks": lambda: [task for task in tasks.owned_tasks(self.pairs) if task],
            "log lines": lambda: tasks.lines_after(self.long.id, 0),
            "detail: lines": lambda: story().lines,
            "detail: attempts": lambda: story().attempts,
            "detail: events": lambda: story().events,
            "events": lambda: audit.event_page(home, audit.EventFilter()).rows,
            "events, searched": lambda: audit.event_page(home, text, limit=5_000).rows,
            "events, exported": lambda: list(audit.export_events(home, text, up_to=newest)),
            "clients": lambda: clients.client_page(home).rows,
            "tokens": lambda: clients.client_tokens(home, clients.client_page(home, text="ci").rows[0].id),
            "live tasks": lambda: clients.live_task_ids(home, self.context.pk),
            "inbox: mine": lambda: inbox.questions(self.admin, "mine"),
            "inbox: all": lambda: inbox.questions(self.admin, "all"),
            "servers": lambda: servers.server_list(home),
            "tools": lambda: servers.server_tools(home, self.tool.server_id),
            "groups": lambda: servers.known_groups(home),
            "catalogue": lambda: catalogue(home).tools,
            "people": lambda: settings.members(home),
            "workers": lambda: workers.fleet(home).workers,
            "running": lambda: [task for worker in workers.fleet(home).workers for task in worker.running],
        }


def _server_of(server_id: int) -> Any:
    return Server.objects.get(pk=server_id)


def test_every_list_costs_the_same_at_one_row_and_at_thirty() -> None:
    world = World()
    world.grow()
    one, few = measured(world)
    for _ in range(29):
        world.grow()
    thirty, many = measured(world)
    assert thirty == one
    for name in one:
        assert few[name] >= 1, name
        assert many[name] >= min(few[name] + 20, 30), name  # it really shows more


def measured(world: World) -> tuple[dict[str, int], dict[str, int]]:
    """Of each list, how many statements it took and how many rows it has."""
    costs, rows = {}, {}
    for name, work in world.lists().items():
        forget_catalogues()
        costs[name] = statements(work)
        forget_catalogues()
        rows[name] = len(work())
    return costs, rows


def test_the_overviews_numbers_cost_the_same_ever_and_so_does_health() -> None:
    world = World()
    found = []
    for _ in range(2):
        world.grow()
        home = world.tenant.pk
        found.append(
            [
                statements(partial(stats.numbers, home)),
                statements(partial(stats.day, home)),
                statements(partial(listing.tab_counts, home, listing.TaskFilter())),
                statements(lambda: inbox.waiting(world.admin).mine),
                statements(backlog),
            ]
        )
    assert found == [[1, 3, 1, 1, 10], [1, 2, 1, 1, 10]]


def test_the_catalogue_is_read_once_and_then_remembered_until_a_hint_drops_it() -> None:
    world = World()
    home = world.tenant.pk
    assert [statements(lambda: catalogue(home)) for _ in range(3)] == [4, 0, 0]
    new = make_tool(make_server(world.tenant))
    assert new not in catalogue(home).tools
    before = catalogue(home).digest
    forget_catalogues()
    assert catalogue(home).by_name[new.exposed_name] == new
    assert catalogue(home).digest != before
