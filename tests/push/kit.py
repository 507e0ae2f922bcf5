"""What the tests of push share: a listener that runs, a feeder behind it, and a browser's socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.test import Client

from taskhub.core.names import HINT_CHANNEL
from taskhub.core.records import Person
from taskhub.lib.lanes import Lanes
from taskhub.lib.signing import Signer
from taskhub.protocol.hub import Hub
from taskhub.push.listener import Feeder
from taskhub.store.listener import listen
from tests.store import raw as sql

BOUND = 5.0
HOST = "localhost"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another task or process brings about; fails after `BOUND` seconds."""
    async with asyncio.timeout(BOUND):
        while not condition():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.002)


def notify(*payloads: str, channel: str = HINT_CHANNEL) -> None:
    """Each payload as a notification of its own, from somebody else's connection."""
    with sql.connect(autocommit=True) as other:
        for payload in payloads:
            other.execute("SELECT pg_notify(%s, %s)", (channel, payload))


def listeners() -> int:
    """Hint connections to the test's database that Postgres knows of."""
    with sql.connect(autocommit=True) as other:
        row = other.execute(f"SELECT count(*) {_LISTENERS}").fetchone()
    assert row is not None
    return int(row[0])


def end_listeners() -> int:
    """Terminate their backends; how many there were."""
    with sql.connect(autocommit=True) as other:
        return len(other.execute(f"SELECT pg_terminate_backend(pid) {_LISTENERS}").fetchall())


_LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'taskhub-hints'"


class Heard:
    """What a listener passed on, in order; a gap is `GAP`."""

    GAP = "(gap)"

    def __init__(self) -> None:
        self.all: list[str] = []

    def gap(self) -> None:
        self.all.append(self.GAP)

    @property
    def gaps(self) -> int:
        return self.all.count(self.GAP)

    @property
    def hints(self) -> list[str]:
        return [hint for hint in self.all if hint != self.GAP]

    def holds(self, what: str, times: int) -> bool:
        return self.all.count(what) == times


@asynccontextmanager
async def background(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """A task for as long as the block runs. It may end by cancellation only."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    try:
        yield task
        assert not task.done() or task.cancelled(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def listening(**more: Any) -> AsyncIterator[Heard]:
    """A listener that is connected."""
    heard = Heard()
    async with background(listen(heard.all.append, heard.gap, **more)):
        await until(lambda: heard.gaps == 1)
        yield heard


def make_hub(lanes: Lanes | None = None) -> Hub:
    """A hub, without lanes unless they are given: what only listens needs none."""
    lanes = lanes or Lanes(0)
    return Hub(lanes=lanes, signer=Signer(b"key"), server_info={}, inline_wait_seconds=0.5, versions=("2026-07-28",))


@asynccontextmanager
async def feeding(lanes: Lanes | None = None) -> AsyncIterator[Feeder]:
    """A feeder that is connected, whose first gap was told to the consoles."""
    feeder = Feeder(make_hub(lanes))
    with feeder.hub.hints.watch("start") as bell:
        async with background(feeder.run()), Console("consoles") as console:
            async with asyncio.timeout(BOUND):
                await bell.wait()
            assert await console.next() == ["resync"]
            yield feeder


class Console:
    """A member of a group of the channel layer, as each browser's socket is one."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.layer: Any = get_channel_layer()
        self.channel = ""

    async def __aenter__(self) -> Console:
        self.channel = await self.layer.new_channel()
        await self.layer.group_add(self.group, self.channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.layer.group_discard(self.group, self.channel)

    async def next(self, seconds: float = BOUND) -> list[str]:
        """The topics of the next message. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds):
            message = await self.layer.receive(self.channel)
        assert message["type"] == "hints"
        topics: list[str] = message["topics"]
        return topics

    def waiting(self) -> bool:
        """Whether a message has come that nobody took."""
        return self.channel in self.layer.channels


def cookie_of(who: Person | User) -> str:
    """The session cookie of somebody who signed in."""
    client = Client()
    client.force_login(who if isinstance(who, User) else User.objects.get(pk=who.user_id))
    return client.cookies["sessionid"].value


class Socket:
    """A browser's socket to the whole application, without a server in between."""

    def __init__(
        self,
        app: Any,
        cookie: str = "",
        *,
        origin: str | None = f"http://{HOST}",
        host: str = HOST,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        headers = [(b"host", host.encode()), *((name.encode(), value.encode()) for name, value in more.items())]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        if cookie:
            headers.append((b"cookie", f"sessionid={cookie}".encode()))
        scope = {
            "type": "websocket", "path": "/ws/hints", "query_string": b"", "headers": headers, "subprotocols": [],
            "client": ("192.0.2.1", 5000),
        }  # fmt: skip
        communicator: Any = ApplicationCommunicator
        self.wire = communicator(app, scope)

    async def open(self) -> int:
        """0 when it was accepted, else the code it was closed with."""
        await self.wire.send_input({"type": "websocket.connect"})
        answer = await self.wire.receive_output(BOUND)
        if answer["type"] == "websocket.accept":
            return 0
        assert answer["type"] == "websocket.close"
        return int(answer["code"])

    async def next(self) -> Any:
        """The next message."""
        answer = await self.wire.receive_output(BOUND)
        assert answer["type"] == "websocket.send", answer
        return json.loads(answer["text"])

    async def say(self, text: str) -> None:
        await self.wire.send_input({"type": "websocket.receive", "text": text})

    def waiting(self) -> bool:
        """Whether a message has come that nobody took."""
        return not self.wire.output_queue.empty()

    async def closed(self) -> int:
        """The code that the other side closes with; messages before are dropped."""
        while (answer := await self.wire.receive_output(BOUND))["type"] != "websocket.close":
            pass
        return int(answer["code"])

    async def close(self) -> None:
        """The browser leaves."""
        await self.wire.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wire.wait(BOUND)
