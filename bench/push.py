#!/usr/bin/env python3
"""What many listeners cost, and how soon they hear of a change.

  uv run python -m bench.push streams [--count 10000] [--seconds 30] [--changes 300]
  uv run python -m bench.push browsers [--count 200] [--seconds 30]

One web process, an embedded Postgres, no worker. `streams`: so many `subscriptions/listen` of 2026-07-28, each of which
follows a task of its own and hears of changed tools, twenty to a client. Printed are what a stream keeps in the web
process, what idle streams cost it and the database, and how long after the commit of a change its stream has it; then
the same right after a token was made and another was taken away. `browsers`: so many people look at the task list,
which reads itself again on a hint as `static/js/live.js` does, while a task changes every second; printed are their
errors, and the times of `tasks/get` beside them and before. Exit status: 0, 1 where a stream or a page failed, 2 when
it could not run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import procfs, sides
from bench.growth import hub
from bench.http1 import Connection
from bench.programs import HOST, CannotRunError, Program, attempts, free_port

VERSION = "2026-07-28"
EXTENSION = "io.modelcontextprotocol/"
OPENING_AT_ONCE = 100
WAIT_S = 30.0
"""For one answer, and for one change to arrive."""
STREAMS_OF_A_CLIENT = 20
T = TypeVar("T")


@dataclass
class World:
    """Clients with tokens and queued tasks of theirs, and the process that they talk to."""

    program: Program
    port: int
    socket: str
    tasks: list[tuple[int, str, str]]
    """Id, public id, and the token of its client."""
    revocable: list[int] = field(default_factory=list)
    """Ids of tokens that nobody listens with."""


def prepared(tasks: int, of_a_client: int) -> tuple[list[tuple[int, str, str]], list[int]]:
    from taskhub.core.records import Actor, NewTask, TaskMode
    from taskhub.core.states import Door
    from taskhub.domain.catalogue.sync import Listed, connect_server, store_snapshot
    from taskhub.domain.catalogue.view import catalogue
    from taskhub.domain.clients.principals import default_tenant
    from taskhub.domain.clients.tokens import issue_token
    from taskhub.domain.tasks.create import create_tasks

    actor, tenant = Actor(name="push", door=Door.CLI), default_tenant().pk
    server = connect_server(tenant_id=tenant, name="push", transport="python", target="none:server", actor=actor)
    definition = {"name": "wait", "inputSchema": {"type": "object"}}
    wait = Listed("wait", definition, "0" * 64, "", TaskMode.ALWAYS, read_only=True, idempotent=True)
    store_snapshot(server, protocol=VERSION, info={}, tools=[wait])
    tool = catalogue(tenant).by_name["wait"]
    found: list[tuple[int, str, str]] = []
    for client in range(-(-tasks // of_a_client)):
        token, row = issue_token(tenant_id=tenant, client=f"client-{client}", actor=actor)
        new = NewTask(tenant_id=tenant, context_id=row.context_id, tool=tool, arguments={}, revision=VERSION)
        for made in create_tasks([(new, actor)] * min(of_a_client, tasks - len(found))):
            if isinstance(made, Exception):
                raise made
            found.append((made.task.id, made.task.public_id, token))
    return found, [issue_token(tenant_id=tenant, client="leaving", actor=actor)[1].pk for _ in range(2)]


def started(stack: ExitStack, tasks: int, of_a_client: int) -> World:
    """The database with its tasks, and a web process before it as `manage.py web` starts one."""
    work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="push-")))
    work.chmod(0o755)
    lanes = {name: os.environ.get(name) for name in ("TASKHUB_LANES", "TASKHUB_PAGE_LANES")}
    socket = stack.enter_context(hub(work / "hub", 0))
    made, revocable = prepared(tasks, of_a_client)
    environment = {name: value for name, value in os.environ.items() if name not in lanes}
    environment |= {name: value for name, value in lanes.items() if value is not None}
    port = free_port()
    command: list[str | Path] = [Path(sys.executable), sides.ROOT / "manage.py", "web"]
    command += ["--host", HOST, "--port", str(port)]
    program = stack.enter_context(Program("web", command, work / "web.log", environment))
    for _ in attempts(program, "200 of /healthz", WAIT_S):
        if sides._status(port, "/healthz") == sides.HTTP_OK:
            break
    return World(program, port, socket, made, revocable)


class Database:
    """What the database has done, asked over a connection of its own."""

    def __init__(self, socket: str) -> None:
        import psycopg

        self._connection = psycopg.connect(host=socket, user="postgres", dbname="taskhub", autocommit=True)

    def transactions(self) -> int:
        """All so far, but those that ask."""
        (found,) = self._connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'taskhub'"
        ).fetchone() or (0,)
        return int(found)

    def sessions(self) -> int:
        """Sessions at the database, two of which are this program's."""
        (found,) = self._connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone() or (0,)
        return int(found)


def line(values: list[float]) -> str:
    ordered = sorted(values)
    at = [1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.95, 0.99, 1)]
    return "p50 {:.0f} ms, p95 {:.0f} ms, p99 {:.0f} ms, longest {:.0f} ms".format(*at)


def request(method: str, about: str, token: str, **params: Any) -> bytes:
    """The bytes of one request of 2026-07-28."""
    meta = {
        f"{EXTENSION}protocolVersion": VERSION,
        f"{EXTENSION}clientInfo": {"name": "push", "version": "1"},
        f"{EXTENSION}clientCapabilities": {"extensions": {f"{EXTENSION}tasks": {}}},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}).encode()
    named = f"Mcp-Name: {about}\r\n" if about else ""
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n"
        f"{named}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_thread = ThreadPoolExecutor(1)


async def own(work: Callable[[], T]) -> T:
    """Done in the one thread here that has a connection to the database."""
    return await asyncio.get_running_loop().run_in_executor(_thread, work)


# ---------------------------------------------------------------------- streams


class Listener(asyncio.Protocol):
    """One stream: when it was acknowledged, and when its task's change came."""

    def __init__(self, message: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._message, self._data = message, bytearray()
        self.acknowledged: asyncio.Future[float] = loop.create_future()
        self.changed: asyncio.Future[float] = loop.create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # of TCP, so it writes
        assert self.transport is not None
        self.transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self.acknowledged.done():
            if b"subscriptions/acknowledged" in self._data:
                self.acknowledged.set_result(time.monotonic())
            elif not self._data.startswith(b"HTTP/1.1 200"):
                self._failed(bytes(self._data[:300]))
        if not self.changed.done() and b'"status":"cancelled"' in self._data:
            self.changed.set_result(time.monotonic())
        if self.acknowledged.done():
            del self._data[:-200]

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._failed(f"the stream ended: {exc}".encode())

    def _failed(self, why: bytes) -> None:
        for future in (self.acknowledged, self.changed):
            if not future.done():
                future.set_exception(CannotRunError(why.decode(errors="replace")))
                future.exception()  # whoever waits for it is told; nobody need


async def opened(world: World) -> list[Listener]:
    loop = asyncio.get_running_loop()
    room = asyncio.Semaphore(OPENING_AT_ONCE)

    async def one(public_id: str, token: str) -> Listener:
        message = request(
            "subscriptions/listen", "", token, notifications={"taskIds": [public_id], "toolsListChanged": True}
        )
        async with room, asyncio.timeout(WAIT_S):
            _, listener = await loop.create_connection(lambda: Listener(message), HOST, world.port)
            await listener.acknowledged
        return listener

    return await asyncio.gather(*(one(public_id, token) for _, public_id, token in world.tasks))


async def delays(world: World, listeners: list[Listener], chosen: list[int], pause: float) -> list[float]:
    """For each, how long after the commit its stream had the change."""
    from taskhub.core.records import Actor
    from taskhub.core.states import Door
    from taskhub.domain.tasks.cancel import request_cancel

    actor = Actor(name="push", door=Door.CLI)

    def change(task: int) -> float:
        request_cancel(task, actor=actor)
        return time.monotonic()

    waiting = []
    for at in chosen:
        began = await own(partial(change, world.tasks[at][0]))
        waiting.append((began, listeners[at].changed))
        await asyncio.sleep(pause)
    async with asyncio.timeout(WAIT_S):
        return [max(0.0, await changed - began) for began, changed in waiting]


async def streams(world: World, count: int, seconds: float, changes: int, say: Callable[[str], None]) -> bool:
    from taskhub.core.records import Actor
    from taskhub.core.states import Door
    from taskhub.domain.clients.principals import default_tenant
    from taskhub.domain.clients.tokens import issue_token, revoke_token

    database, web = Database(world.socket), world.program.pid
    before = procfs.usage(web)
    began = time.monotonic()
    listeners = await opened(world)
    took, held = time.monotonic() - began, procfs.usage(web)
    each = (held.mem_mib - before.mem_mib) * 1024 / count
    say(
        f"{count:,} streams in {took:.1f} s ({(held.cpu_s - before.cpu_s) / count * 1e3:.1f} ms of CPU each);"
        f" {before.mem_mib:.0f} -> {held.mem_mib:.0f} MiB, {each:.1f} KiB each"
    )
    await asyncio.sleep(5)
    used, done = procfs.usage(web).cpu_s, database.transactions()
    await asyncio.sleep(seconds)
    used, done = procfs.usage(web).cpu_s - used, database.transactions() - done
    say(
        f"idle for {seconds:.0f} s: {done / seconds:.1f} transactions a second, {database.sessions()} sessions,"
        f" {used / seconds:.1%} of a core"
    )
    order = random.Random(1).sample(range(count), min(count, changes + 40))
    say(f"{len(order) - 40} changes, 10 a second: {line(await delays(world, listeners, order[40:], 0.1))}")
    actor, tenant = Actor(name="push", door=Door.CLI), (await own(default_tenant)).pk
    await own(partial(issue_token, tenant_id=tenant, client="another", actor=actor))
    say(f"20 changes right after a token was made: {line(await delays(world, listeners, order[:20], 0.01))}")
    await own(partial(revoke_token, tenant_id=tenant, token_id=world.revocable[0], actor=actor))
    say(f"20 changes right after a token was revoked: {line(await delays(world, listeners, order[20:40], 0.01))}")
    open_still = sum(listener.transport is not None for listener in listeners)
    say(f"open at the end: {open_still:,}")
    for listener in listeners:
        if listener.transport is not None:
            listener.transport.abort()
    return open_still == count


# --------------------------------------------------------------------- browsers


@dataclass
class Seen:
    """What all browsers together got."""

    pages: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    """How long after a change a browser shows a list that was made after it."""
    errors: list[str] = field(default_factory=list)


class Browser:
    """One that looks at the task list: `static/js/live.js` and the `hx-trigger` of the list and of the number of
    requests in the page's frame, in Python."""

    THROTTLE_S = 1.0

    def __init__(self, world: World, cookie: str, seen: Seen) -> None:
        self._world, self._cookie, self._seen = world, cookie, seen
        self._connection: Connection | None = None
        self._due = asyncio.Event()
        self._beat = 0.5
        self.ready = asyncio.Event()
        self.shown_at = 0.0

    async def look(self) -> None:
        """Until it is cancelled: hears, and reads the list."""
        from websockets.asyncio.client import connect

        origin = f"http://{HOST}:{self._world.port}"
        headers = {"Cookie": self._cookie}
        async with connect(
            f"ws://{HOST}:{self._world.port}/ws/hints", origin=origin, additional_headers=headers, open_timeout=WAIT_S
        ) as socket:
            reading = asyncio.ensure_future(self._read())
            try:
                async for text in socket:
                    message = json.loads(text)
                    self._beat = message.get("beat", 500) / 1_000
                    if message.get("resync") or "tasks" in message.get("hints", ()):
                        self._due.set()
                    self.ready.set()
            finally:
                reading.cancel()

    async def _read(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            beat, heard = self._beat, time.monotonic()
            if beat > 0.5:
                await asyncio.sleep(random.random() * beat)
            began = time.monotonic()
            try:
                async with asyncio.timeout(WAIT_S):
                    await self._page("/tasks/", "task-list", b'id="task-list"')
                    await self._page("/inbox/count", "inbox-count", b"count")
                self._seen.pages.append(time.monotonic() - began)
                self.shown_at = began
            except Exception as error:
                self._seen.errors.append(str(error) or repr(error))
            now = time.monotonic()
            await asyncio.sleep(max(0.0, self.THROTTLE_S - (now - began), beat - (now - heard)))

    async def _page(self, path: str, element: str, holds: bytes) -> None:
        if self._connection is None or not self._connection.usable:
            _, self._connection = await asyncio.get_running_loop().create_connection(Connection, HOST, self._world.port)
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {HOST}:{self._world.port}\r\nCookie: {self._cookie}\r\nAccept: */*\r\n"
            f"HX-Request: true\r\nHX-Trigger: {element}\r\nHX-Target: {element}\r\n\r\n"
        )
        reply = await self._connection.exchange(head.encode())
        if reply.status != sides.HTTP_OK or holds not in reply.body:
            raise CannotRunError(f"{reply.status}: {reply.body[:100]!r}")


def cookies(count: int) -> list[str]:
    """Sessions of one operator, as so many browsers have them."""
    from django.contrib.auth.models import User
    from django.test import Client

    found = []
    for _ in range(count):
        browser = Client()
        browser.force_login(User.objects.get(username="operator"))
        found.append(f"sessionid={browser.cookies['sessionid'].value}")
    return found


@asynccontextmanager
async def polling(world: World, took: list[float]) -> AsyncIterator[None]:
    """A client asks for its task fifty times a second."""
    _, public_id, token = world.tasks[-1]
    message = request("tasks/get", public_id, token, taskId=public_id)

    async def ask() -> None:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, HOST, world.port)
        while True:
            began = time.monotonic()
            reply = await connection.exchange(message)
            if reply.status != sides.HTTP_OK:
                raise CannotRunError(f"tasks/get was answered with {reply.status}: {reply.body[:200]!r}")
            took.append(time.monotonic() - began)
            await asyncio.sleep(max(0.0, 0.02 - (time.monotonic() - began)))

    asking = asyncio.ensure_future(ask())
    try:
        yield
        if asking.done():
            asking.result()
    finally:
        asking.cancel()


async def browsers(world: World, count: int, seconds: float, say: Callable[[str], None]) -> bool:
    from taskhub.core.records import Actor
    from taskhub.core.states import Door
    from taskhub.domain.tasks.cancel import request_cancel

    actor, web, seen = Actor(name="push", door=Door.CLI), world.program.pid, Seen()
    alone: list[float] = []
    beside: list[float] = []
    async with polling(world, alone):
        await asyncio.sleep(min(10.0, seconds))
    say(f"tasks/get alone: {line(alone)}")
    looking = [Browser(world, cookie, seen) for cookie in await own(partial(cookies, count))]
    running = []
    for browser in looking:
        running.append(asyncio.ensure_future(browser.look()))
        await asyncio.sleep(0.02)
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(browser.ready.wait() for browser in looking))
    await asyncio.sleep(5)
    seen.pages.clear()
    seen.errors.clear()
    used = procfs.usage(web).cpu_s
    ages = []
    settled = time.monotonic() + 5
    async with polling(world, beside):
        for task, _, _ in world.tasks[: int(seconds)]:
            await own(partial(request_cancel, task, actor=actor))
            await asyncio.sleep(1)
            now = time.monotonic()
            if now < settled:
                continue
            ages += [now - browser.shown_at for browser in looking]
    used = procfs.usage(web).cpu_s - used
    say(f"tasks/get beside {count} browsers: {line(beside)}")
    say(f"{len(seen.pages):,} lists in {seconds:.0f} s: {line(seen.pages)}; {used / seconds:.0%} of a core")
    say(f"a list is old, just before the next change: {line(ages)}")
    say(f"{len(seen.errors)} errors{': ' + seen.errors[0] if seen.errors else ''}")
    gone = [task for task in running if task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return not seen.errors and not gone


def main() -> int:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("streams", "browsers"))
    parser.add_argument("--count", type=int, help="streams: 10000; browsers: 200")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--changes", type=int, default=300, help="changes that streams are to hear of")
    plan = parser.parse_args()
    count = plan.count or {"streams": 10_000, "browsers": 200}[plan.what]

    def say(text: str) -> None:
        print(text, flush=True)

    with ExitStack() as stack:
        try:
            if plan.what == "streams":
                world = started(stack, count, STREAMS_OF_A_CLIENT)
                good = asyncio.run(streams(world, count, plan.seconds, plan.changes, say))
            else:
                world = started(stack, int(plan.seconds) + 60, 500)
                good = asyncio.run(browsers(world, count, plan.seconds, say))
        except (CannotRunError, TimeoutError) as error:
            print(error or "no answer in time", file=sys.stderr)
            return 2
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
