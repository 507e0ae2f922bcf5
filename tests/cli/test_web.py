"""The end of a web process: whoever was let in is answered. And what its beginning does without."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop

from taskhub.cli import httpserver
from taskhub.cli.httpserver import BoundedHttp
from taskhub.cli.management.commands.web import Server
from tests.support.hub import ROOT

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LENGTH = 32 * 1_048_576
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Everybody gets a 200."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Owner:
    """What a server asks of its application when it ends."""

    def begin_closing(self) -> None:
        """Nothing is open here."""


async def answer_at_length(scope: Any, receive: Any, send: Any) -> None:
    """Everybody gets more than the buffers of two sockets hold."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LENGTH)]})
    await send({"type": "http.response.body", "body": b"x" * LENGTH})


async def started(app: Any = answer) -> Server:
    config = uvicorn.Config(
        app, port=0, http=BoundedHttp, lifespan="off", access_log=False, log_config=None, timeout_graceful_shutdown=4
    )
    config.load()
    server = Server(config)
    server.lifespan = config.lifespan_class(config)
    server.owner = Owner()
    await server.startup()
    return server


def connected(server: Server) -> socket.socket:
    return socket.create_connection(address(server), 10)


def address(server: Server) -> tuple[str, int]:
    host, port = server.servers[0].sockets[0].getsockname()
    return host, port


async def turns(come: Callable[[], bool]) -> None:
    """Let the loop turn until this has come."""
    for _ in range(1_000_000):
        if come():
            return
        await asyncio.sleep(0)
    raise AssertionError("never came")


async def status(connection: socket.socket) -> bytes:
    with connection:
        return (await asyncio.to_thread(connection.recv, 65_536)).partition(b"\r\n")[0]


def run(loop: str, test: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(test())


@pytest.mark.parametrize("loop", LOOPS)
def test_requests_that_wait_at_the_socket_are_answered(loop: str) -> None:
    async def ended() -> list[bytes]:
        server = await started()
        there = address(server)
        # The loop does not turn meanwhile: they are connected, and nobody has accepted them.
        waiting = [connected(server) for _ in range(5)]
        for one in waiting:
            one.sendall(REQUEST)
        await server.shutdown()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(there, 10)
        return [await status(one) for one in waiting]

    assert run(loop, ended) == [b"HTTP/1.1 200 OK"] * 5


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_was_just_made_may_send_its_request(loop: str) -> None:
    async def ended() -> list[bytes]:
        server = await started()
        made = connected(server)
        await turns(lambda: bool(server.server_state.connections))
        ending = asyncio.create_task(server.shutdown())
        await turns(lambda: not server.servers[0].sockets)
        made.sendall(REQUEST)
        await ending
        return [await status(made)]

    assert run(loop, ended) == [b"HTTP/1.1 200 OK"]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_says_nothing_holds_nothing_up_for_long(loop: str) -> None:
    async def ended() -> bytes:
        server = await started()
        silent = connected(server)
        await turns(lambda: bool(server.server_state.connections))
        await asyncio.wait_for(server.shutdown(), 5)
        return await status(silent)

    assert run(loop, ended) == b""


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_takes_nothing_of_its_answer_is_hung_up_on(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpserver, "TAKE_SECONDS", 0.2)

    async def served() -> int:
        server = await started(answer_at_length)
        idle, reader = connected(server), connected(server)
        with idle, reader:
            idle.sendall(REQUEST)
            await turns(lambda: len(server.server_state.connections) == 2)
            await turns(lambda: len(server.server_state.connections) == 1)
            reader.sendall(REQUEST)
            taken = 0
            while chunk := await asyncio.to_thread(reader.recv, 1_048_576):
                taken += len(chunk)
        await server.shutdown()
        return taken

    assert run(loop, served) > LENGTH


def test_an_address_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",  # it is not asked before there is an address
        "SECRET_KEY": "x" * 32,
        "TASKHUB_DATA_DIR": str(tmp_path),
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "manage.py", "web", "--port", port]
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
    assert ended.returncode == 3  # as uvicorn ends where it cannot start
    (line,) = (line for line in ended.stderr.splitlines() if " ERROR " in line)
    assert "address already in use" in line
    assert "Traceback" not in ended.stderr


def test_neither_a_web_process_nor_up_imports_the_sdk_which_takes_longer_than_all_else_of_a_start() -> None:
    code = """if True:
        import sys, django
        django.setup()
        import taskhub.cli.management.commands.call, taskhub.cli.management.commands.up
        import taskhub.cli.management.commands.web, taskhub.config.asgi, taskhub.config.urls
        print(*{name.partition(".")[0] for name in sys.modules} & {"mcp", "mcp_types"})
    """
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "taskhub.config.settings"}
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True) == "\n"
