#!/usr/bin/env python3
"""What each page and each method costs in a hub with few tasks and in one with many.

  uv run bench/growth.py [--small 1000] [--large 1000000] [--keep DIRECTORY] [--only WORD]
  uv run bench/growth.py --pages [--large 40000] [--keep DIRECTORY] [--only WORD]

For each size a hub of its own: an embedded Postgres, a month made up by `seed --tasks`, and the application in this
process, asked as a server would ask it. Counted for each operation are the CPU of Python and of Postgres' backends,
the queries, and the pages of tables and indexes that Postgres looked at. Exit status: 0 nothing grows, 1 something
costs over 1.5 times as much in the larger hub, or takes over 20 queries, 2 it could not be measured. With `--pages` one
hub is enough: what looks at more pages than is allowed it fails, on a busy machine as on a quiet one. bench/README.md
says more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

RATIO = 1.5
QUERIES = 20
NOISE_MS = 1.0  # less than this more is no growth, whatever the ratio
FEWEST, MOST, SECONDS = 5, 60, 0.5  # runs of each operation, and about how long
PAGES_TASKS = 40_000  # more than any page looks at, and their table has 5,000 pages
PAGES_PAGE, PAGES_METHOD = 600, 200
MORE_PAGES = {
    "/tasks/?client={client}": 2_000,
    "/tasks/?tool={tool}": 8_000,
    "/tasks/?age=24h": 7_000,
    "/tasks/?q=": 11_000,
    "/audit/?text=zebra": 2_500,
    "/audit/?actor=nobody": 2_500,
    "/inbox/?queue=decided": 700,
    "/news/": 1_500,
    "/news/count": 1_500,
    "/clients/": 7_000,
    "/clients/{client}/": 1_200,
    "claim and give back": 500,
}
"""What an operation whose name begins so may look at instead: it counts or searches, up to a bound of its own."""
HTTP_OK = 200
HOST = b"localhost"
EXTENSION = "io.modelcontextprotocol/"


@dataclass(frozen=True)
class Cost:
    """Of one run, in the mean."""

    python_ms: float
    postgres_ms: float
    queries: int
    pages: int
    shown: int
    """Bytes of the answer, where it has any."""

    @property
    def ms(self) -> float:
        return self.python_ms + self.postgres_ms


# ---------------------------------------------------------------- one hub


@contextmanager
def hub(data: Path, tasks: int) -> Iterator[str]:
    """Postgres with so many tasks, made unless they are there; Django is set up for it. Yields its socket."""
    data.mkdir(parents=True, exist_ok=True)
    data.chmod(0o711)
    key = data / "secret_key"
    if not key.exists():
        key.write_text(secrets.token_hex(32))
    os.environ.update(
        DJANGO_SETTINGS_MODULE="taskhub.config.settings", TASKHUB_DATA_DIR=str(data), LOG_LEVEL="WARNING",
        TASKHUB_LANES="1", TASKHUB_PAGE_LANES="1", TASKHUB_CONTEXT_REQUESTS="0", TASKHUB_CONTEXT_KIB="0",
    )  # fmt: skip
    from taskhub.cli.embedded import Embedded

    postgres = Embedded(data)
    os.environ["DATABASE_URL"] = postgres.start()
    try:
        import django

        django.setup()
        from django.core.management import call_command

        from taskhub.cli.firstrun import make_people
        from taskhub.cli.static import collect_if_changed

        collect_if_changed()
        call_command("migrate", verbosity=0, interactive=False)
        make_people(data, "http://localhost")
        from taskhub.store.models import Server, Task

        if (there := Task.objects.count()) < tasks:
            call_command("seed", "--tasks", str(tasks - there), stdout=sys.stderr)
        Server.objects.update(enabled=True)  # the made-up ones are disabled: none of their calls would be claimed
        forget()
        yield str(postgres.directory())
    finally:
        postgres.stop()


def forget() -> None:
    """Close this thread's connection. A backend that has nothing to do tells only ten seconds later what it has read,
    which would then count for whatever is measured."""
    from django.db import connections

    connections.close_all()


class Meter:
    """Counts what a piece of work costs in this process and in all backends."""

    def __init__(self, socket: str, *, timed: bool) -> None:
        import psycopg

        self._timed = timed
        self._control = psycopg.connect(host=socket, user="postgres", dbname="taskhub", autocommit=True)
        self.queries = 0
        self._flush = False
        execute = psycopg.Cursor.execute

        def counted(cursor: Any, *args: Any, **kwargs: Any) -> Any:
            if cursor.connection is self._control:
                return execute(cursor, *args, **kwargs)
            self.queries += 1
            found = execute(cursor, *args, **kwargs)
            if self._flush:  # a backend tells what it has read once a second at most, unless it is asked to
                cursor.connection.pgconn.exec_(b"SELECT pg_stat_force_next_flush()")
            return found

        psycopg.Cursor.execute = counted  # type: ignore[assignment,method-assign]  # of this run only

    def _backends(self) -> tuple[float, int]:
        found = self._control.execute(
            "SELECT a.pid, coalesce(sum(coalesce(i.hits, 0) + coalesce(i.reads, 0)), 0)"
            " FROM pg_stat_activity a CROSS JOIN LATERAL pg_stat_get_backend_io(a.pid) i"
            " WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() GROUP BY a.pid"
        ).fetchall()
        cpu = sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid, _ in found)
        return cpu / 1e6, sum(int(pages) for _, pages in found)

    async def cost(self, work: Callable[[], Awaitable[object]]) -> Cost:
        """Warm it up, count the pages of one run, then, where it is timed, the CPU of several."""
        for _ in range(3):
            await work()
        self._flush = True
        await work()
        _, before = self._backends()
        self.queries = 0
        answer = await work()
        queries, (_, after) = self.queries, self._backends()
        self._flush = False
        shown = len(answer) if isinstance(answer, bytes) else 0
        if not self._timed:
            return Cost(0, 0, queries, after - before, shown)
        await work()
        runs, until = 0, time.monotonic() + SECONDS
        postgres, python = self._backends()[0], time.process_time()
        while runs < FEWEST or (runs < MOST and time.monotonic() < until):
            await work()
            runs += 1
        python, postgres = time.process_time() - python, self._backends()[0] - postgres
        return Cost(python * 1e3 / runs, postgres / runs, queries, after - before, shown)


class Asgi:
    """Asks the application as a server would, without a socket in between."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def ask(self, verb: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, Any, bytes]:
        """Status, headers, body."""
        path, _, query = path.partition("?")
        sent: list[dict[str, Any]] = []
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if given:
                return given.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": verb, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "client": ("127.0.0.1", 1), "server": ("localhost", 80),
            "headers": [
                (b"host", HOST), (b"content-length", str(len(body)).encode()),
                *((name.encode(), value.encode()) for name, value in headers.items()),
            ],
        }  # fmt: skip
        await self._app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), content

    async def page(self, path: str, cookie: str) -> bytes:
        """A page that a person looks at."""
        status, _, body = await self.ask("GET", path, {"cookie": cookie})
        if status != HTTP_OK:
            raise SystemExit(f"{path} was answered with {status}: {body[:300]!r}")
        return body


class Caller:
    """A client of /mcp, of either era."""

    def __init__(self, asgi: Asgi, token: str) -> None:
        self._asgi = asgi
        self._headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }

    async def _send(self, message: dict[str, Any], headers: dict[str, str]) -> tuple[Any, dict[str, Any]]:
        status, found, body = await self._asgi.ask(
            "POST", "/mcp", {**self._headers, **headers}, json.dumps(message).encode()
        )
        text = body.decode()
        if text.startswith(("id:", "event:", "data:", ":")):
            text = [line[6:] for line in text.splitlines() if line.startswith("data: {")][-1]
        answer = json.loads(text) if text else {}
        if status not in (HTTP_OK, 202) or "error" in answer:
            raise SystemExit(f"{message['method']} was answered with {status}: {text[:300]}")
        return found, answer

    async def modern(self, method: str, about: str = "", /, **params: Any) -> dict[str, Any]:
        """A request of 2026-07-28; its result."""
        meta = {
            f"{EXTENSION}protocolVersion": "2026-07-28",
            f"{EXTENSION}clientInfo": {"name": "growth", "version": "1"},
            f"{EXTENSION}clientCapabilities": {"extensions": {f"{EXTENSION}tasks": {}}},
        }
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if about:
            headers["mcp-name"] = about
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        result: dict[str, Any] = (await self._send(message, headers))[1]["result"]
        return result

    async def begin(self) -> None:
        """A session of 2025-11-25."""
        params = {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "growth", "version": "1"},
        }  # fmt: skip
        found, _ = await self._send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {})
        self._session = {
            "mcp-session-id": found[b"mcp-session-id"].decode(),
            "mcp-protocol-version": "2025-11-25",
        }
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._session)

    async def older(self, method: str, **params: Any) -> dict[str, Any]:
        """A request in that session; its result."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        result: dict[str, Any] = (await self._send(message, self._session))[1]["result"]
        return result


async def measured(socket: str, only: str, *, timed: bool) -> dict[str, Cost]:
    """The cost of every operation by its name."""
    from asgiref.sync import sync_to_async
    from django.contrib.auth.models import User
    from django.test import Client

    from taskhub.config.asgi import application

    def prepared() -> tuple[str, dict[str, Any]]:
        browser = Client()
        browser.force_login(User.objects.get(username="admin"))
        cookie, things = f"sessionid={browser.cookies['sessionid'].value}", _things()
        forget()
        return cookie, things

    meter = Meter(socket, timed=timed)
    cookie, things = await sync_to_async(prepared)()
    asgi = Asgi(application)
    caller, earlier = Caller(asgi, things["token"]), Caller(asgi, things["older_token"])
    await earlier.begin()
    found: dict[str, Cost] = {}

    async def run(name: str, work: Callable[[], Awaitable[object]]) -> None:
        if only in name:
            found[name] = await meter.cost(work)
            cost = f"{found[name].ms:9.2f} ms" if timed else f"{found[name].pages:7,} pages"
            print(f"  {name:<44} {cost}", file=sys.stderr, flush=True)

    for name in _PAGES:
        await run(name, partial(asgi.page, name.format(**things), cookie))
    for method, about in (("server/discover", ""), ("tools/list", ""), ("tasks/get", things["ended"])):
        given = {"taskId": about} if about else {}
        await run(f"2026 {method}", partial(caller.modern, method, about, **given))

    async def create() -> None:
        made = await caller.modern("tools/call", "echo", name="echo", arguments={"text": "hello"})
        await caller.modern("tasks/cancel", made["taskId"], taskId=made["taskId"])

    await run("2026 tools/call and tasks/cancel", create)
    for method, params in (
        ("ping", {}),
        ("tools/list", {}),
        ("tasks/list", {}),
        ("tasks/get", {"taskId": things["older_ended"]}),
        ("tasks/result", {"taskId": things["older_ended"]}),
    ):
        await run(f"2025 {method}", partial(earlier.older, method, **params))
    for name, chore in _chores().items():
        await run(name, sync_to_async(chore))
    application.close()
    return found


_TASKS = (
    "", "?state=queued", "?state=finished", "?state=error", "?state=faulted", "?state=unfetched", "?client={client}",
    "?tool={tool}", "?age=24h", "?q=T-77", "?q=zebra", "?q=kitchen+river", "?before={middle_task}",
)  # fmt: skip
_AUDIT = (
    "", "?before={middle_event}", "?action=task", "?action=task.faulted", "?text=kitchen", "?text=zebra",
    "?actor=billing", "?actor=nobody", "?since=24h", "?since=7d&until=24h", "?door=web", "?task={ended}",
)  # fmt: skip
_PAGES = (
    "/readyz", "/", *(f"/tasks/{query}" for query in _TASKS), "/tasks/{ended}/", "/tasks/{ended}/?view=timeline",
    "/inbox/", "/inbox/?queue=all", "/inbox/?sort=risk&age=over-1h", "/inbox/?queue=decided", "/news/", "/news/count",
    *(f"/audit/{query}" for query in _AUDIT), "/audit/export?format=jsonl&task={ended}",
    "/clients/", "/clients/{client}/", "/clients/applications/",
    "/servers/", "/servers/{server}/", "/workers/", "/settings/", "/settings/webhooks/", "/accounts/",
    "/accounts/notifications/", "/metrics",
)  # fmt: skip
"""With the names of `_things` in them. `zebra` stands nowhere. The first asks for a worker, which is silent soon."""


def _things() -> dict[str, Any]:
    """What pages and methods are asked for: the busiest client, another that speaks 2025-11-25, tasks of both, and a
    tool to call."""
    from taskhub.core.records import Actor, TaskMode
    from taskhub.core.states import Door
    from taskhub.domain.catalogue.sync import Listed, connect_server, store_snapshot
    from taskhub.domain.clients.principals import default_tenant
    from taskhub.domain.clients.tokens import issue_token
    from taskhub.domain.workers.writes import heartbeat
    from taskhub.store.models import Event, Server, Task

    actor, tenant = Actor(name="growth", door=Door.CLI), default_tenant().pk
    heartbeat("growth", slots=4, busy=0)
    server = connect_server(tenant_id=tenant, name="growth", transport="python", target="none:server", actor=actor)
    definition = {"name": "echo", "inputSchema": {"type": "object"}}
    echo = Listed("echo", definition, "0" * 64, "", TaskMode.ALWAYS, read_only=True, idempotent=True)
    store_snapshot(server, protocol="2026-07-28", info={}, tools=[echo])
    ended = Task.objects.filter(state="finished", handle=True).order_by("-id")
    busy = ended.filter(revision="2026-07-28").select_related("context")[0]
    older = ended.filter(revision="2025-11-25").select_related("context")[0]
    return {
        "token": issue_token(tenant_id=tenant, client=busy.context.name, actor=actor)[0],
        "older_token": issue_token(tenant_id=tenant, client=older.context.name, actor=actor)[0],
        "ended": busy.public_id,
        "older_ended": older.public_id,
        "client": busy.context_id,
        "tool": busy.tool_name,
        "server": Server.objects.get(name="made-up-files").pk,
        "middle_task": busy.pk - Task.objects.count() // 2,
        "middle_event": (Event.objects.order_by("-id").values_list("pk", flat=True)[0]) // 2,
    }


def _chores() -> dict[str, Callable[[], object]]:
    from taskhub.core.records import Actor
    from taskhub.core.states import Door
    from taskhub.domain.audit.seal import seal_events
    from taskhub.domain.tasks import run
    from taskhub.domain.tasks.sweep import purge, sweep

    actor = Actor(name="growth", door=Door.WORKER)

    def claim() -> None:
        taken = run.claim_tasks(worker="growth", limit=2, lease_seconds=60, per_context=1_000, actor=actor)
        if not taken.tasks:
            raise RuntimeError("nothing to claim")
        for task in taken.tasks:
            run.release(task, started=False, delay_seconds=0, reason="", actor=actor)

    return {
        "claim and give back": claim,
        "sweep": sweep,
        "purge, nothing to do": lambda: purge(retention_days=60),
        "seal": seal_events,
    }


# ---------------------------------------------------------------- both


def of_size(tasks: int, place: Path, only: str, *, timed: bool = True) -> dict[str, Cost]:
    """What it costs at this size, in a process of its own: Django is set up for one database."""
    print(f"{tasks:,} tasks", file=sys.stderr, flush=True)
    out = place / f"{tasks}.json"
    command = [sys.executable, __file__, "--one", str(tasks), "--keep", str(place), "--only", only]
    if not timed:
        command.append("--pages")
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(2)
    return {name: Cost(**cost) for name, cost in json.loads(out.read_text()).items()}


def table(small: dict[str, Cost], large: dict[str, Cost], sizes: tuple[int, int]) -> list[str]:
    """Print both beside each other; returns what is too much."""
    too_much = []
    few, many = (f"{size:,}" for size in sizes)
    print(f"\n| Operation | {few}: Python + Postgres ms | {many}: Python + Postgres ms | ratio | queries | pages |")
    print("|---|---|---|---|---|---|")
    for name, now in large.items():
        before = small[name]
        ratio = now.ms / max(before.ms, 0.01)
        # A list that is full only in the larger hub may cost as much more as it shows more.
        more = max(1.0, now.shown / before.shown) if before.shown else 1.0
        grows = ratio > RATIO * more and now.ms - before.ms > NOISE_MS
        if grows:
            too_much.append(f"{name} costs {ratio:.1f} times as much")
        if now.queries > QUERIES:
            too_much.append(f"{name} takes {now.queries} queries")
        print(
            f"| `{name}` | {before.python_ms:.1f} + {before.postgres_ms:.1f} | {now.python_ms:.1f} +"
            f" {now.postgres_ms:.1f} | {ratio:.2f}{' !' if grows else ''} | {before.queries}, {now.queries} |"
            f" {before.pages:,}, {now.pages:,} |"
        )
    return too_much


def allowed_pages(name: str) -> int:
    """How many pages an operation of this name may look at."""
    longest = max((start for start in MORE_PAGES if name.startswith(start)), key=len, default="")
    # `/clients/` is a name and the beginning of others.
    if longest and (name == longest or not longest.endswith("/")):
        return MORE_PAGES[longest]
    return PAGES_PAGE if name.startswith("/") else PAGES_METHOD


def over(found: dict[str, Cost]) -> list[str]:
    """What looks at too many pages or takes too many queries."""
    too_much = []
    for name, cost in found.items():
        if cost.pages > (most := allowed_pages(name)):
            too_much.append(f"{name} looks at {cost.pages:,} pages, {most:,} are allowed")
        if cost.queries > QUERIES:
            too_much.append(f"{name} takes {cost.queries} queries")
    return too_much


def main() -> int:
    """Both sizes and the verdict, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", type=int, default=1_000, help="tasks in the smaller hub")
    parser.add_argument("--large", type=int, help=f"tasks in the larger hub: 1000000, or {PAGES_TASKS} with --pages")
    parser.add_argument("--pages", action="store_true", help="count pages in the larger hub alone, and no CPU")
    parser.add_argument("--keep", type=Path, help="where the hubs are kept, and used again if they are there")
    parser.add_argument("--only", default="", help="operations with this in their name")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    plan = parser.parse_args()
    if plan.one:
        with hub(plan.keep / str(plan.one), plan.one) as socket:
            found = asyncio.run(measured(socket, plan.only, timed=not plan.pages))
        (plan.keep / f"{plan.one}.json").write_text(json.dumps({name: asdict(cost) for name, cost in found.items()}))
        return 0
    with tempfile.TemporaryDirectory(prefix="growth-") as temporary:
        Path(temporary).chmod(0o755)  # Postgres runs as a user of its own where root starts it
        place = (plan.keep or Path(temporary)).resolve()
        if plan.pages:
            found = of_size(plan.large or PAGES_TASKS, place, plan.only, timed=False)
            too_much, good = over(found), "Nothing looks at more than it may."
        else:
            sizes = plan.small, plan.large or 1_000_000
            small, large = (of_size(size, place, plan.only) for size in sizes)
            too_much, good = table(small, large, sizes), "Nothing grows."
    print()
    print("\n".join(too_much) or good)
    return 1 if too_much else 0


if __name__ == "__main__":
    raise SystemExit(main())
