"""A `python:` server in a process of its own, which the hub uses like a command. The process runs this file, which
imports the object and serves it on standard input and output: `python -P own_process.py MODULE:OBJECT PATH…`.

This module imports nothing of TaskHub: the process may run as a user that cannot read TaskHub's files, and must start
fast.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
import sys
import sysconfig
import traceback
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Self

import mcp_types as types
from mcp.server import MCPServer, Server
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage

OF_CALL: Final = "taskhub/call"
"""The member of `_meta` that names the request during which a message was sent, because calls of several clients run in
one process."""
LONGEST: Final = 64 * 1_048_576
"""The most bytes of a line that are read, far more than the hub writes."""

_REQUEST: ContextVar[types.RequestId | None] = ContextVar("request", default=None)
"""The request in which the running code was called."""


def as_command(target: str) -> str:
    """The command that serves the object of a `python:` server. The import path of the command is that of this
    process."""
    given = [Path(path) for name, path in sysconfig.get_paths().items() if name.endswith(("stdlib", "lib"))]
    paths = [Path(path).absolute() for path in sys.path if path and Path(path).exists()]
    own = [str(path) for path in paths if path not in given and path.parent not in given]
    return shlex.join([sys.executable, "-P", str(Path(__file__).resolve()), target, *own])


def main() -> None:
    """Serve the object until standard input ends."""
    # Move the pipes away from the standard descriptors. Code of the server that prints then writes to the log, and code
    # that reads gets the null device.
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    target, *paths = sys.argv[1:]
    del sys.argv[1:]
    sys.path[:0] = [path for path in (str(Path.cwd()), *paths) if path not in sys.path]
    try:
        found, problem = _server(target), ""
    except (Exception, SystemExit) as error:  # noqa: BLE001 - its module may raise anything
        traceback.print_exc()
        found, problem = None, f"cannot import {target}: {type(error).__name__}: {error}"
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(found, problem, incoming, outgoing))
        # A thread in which a tool still runs would delay an ordinary exit.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _loop_factory() -> Any:
    try:
        from uvloop import new_event_loop  # it may not be installed
    except ImportError:
        return None
    return new_event_loop


def _server(target: str) -> Server[Any]:
    """The object, as the server that the SDK's client would make of it in the same process."""
    module, _, attribute = target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if isinstance(found, MCPServer):
        found = found._lowlevel_server
    if not isinstance(found, Server):
        raise TypeError(f"it is a {type(found).__name__}, and no MCPServer or Server of the MCP SDK")
    return found


async def _serve(server: Server[Any] | None, problem: str, incoming: int, outgoing: int) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(incoming, "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(outgoing, "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    if server is None:
        await _refuse(problem, lines, writer)
        return
    heard, read = create_context_streams[SessionMessage | Exception](0)
    write, sent = create_context_streams[SessionMessage](0)
    reading = asyncio.create_task(_read(lines, heard))
    writing = asyncio.create_task(_write(sent, writer))
    await server.run(read, _Named(write), server.create_initialization_options())
    reading.cancel()
    await asyncio.wait({reading, writing}, timeout=1)


async def _read(lines: asyncio.StreamReader, heard: Any) -> None:
    async with heard:
        while line := await lines.readline():
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError as error:
                await heard.send(error)
                continue
            _REQUEST.set(message.id if isinstance(message, types.JSONRPCRequest) else None)
            await heard.send(SessionMessage(message))  # the handler of the message gets this context


async def _write(sent: Any, writer: asyncio.StreamWriter) -> None:
    async with sent:
        async for item in sent:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(text.encode(errors="replace") + b"\n")
            await writer.drain()


async def _refuse(problem: str, lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the first request with the reason why nothing is served."""
    while line := await lines.readline():
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        if isinstance(message, types.JSONRPCRequest):
            error = types.ErrorData(code=types.INTERNAL_ERROR, message=problem)
            answer = types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
            writer.write(answer.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await writer.drain()
            return


class _Named:
    """The stream of outgoing messages; adds to each the id of the request that it belongs to."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        message, request = item.message, _REQUEST.get()
        if request is not None and isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
            params = message.params or {}
            message.params = {**params, "_meta": {**(params.get("_meta") or {}), OF_CALL: request}}
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


if __name__ == "__main__":
    main()
