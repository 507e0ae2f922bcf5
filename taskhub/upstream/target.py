"""Where a server is, and what is needed to connect to it."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from taskhub.core.errors import Unavailable
from taskhub.core.secrets import given_secrets, secrets_of, without_secrets, without_values
from taskhub.core.transports import SSE
from taskhub.core.versions import OF_CALLER
from taskhub.domain.catalogue.spec import command_of
from taskhub.domain.catalogue.sync import SyncedServer
from taskhub.upstream.bearer import Bearer, Secrets
from taskhub.upstream.failures import reason
from taskhub.upstream.own_process import as_command


@dataclass(frozen=True, slots=True)
class Target:
    """The transport of a server, and its address, command or module, with what is needed to connect."""

    transport: str
    target: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Headers for every request to an HTTP server."""
    name: str = field(default="", compare=False)
    """The server's name, for the log."""
    unusable: str = ""
    """Why the hub must not connect to the server, as text for people; empty if it may."""
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables for a command, besides those that `target` sets."""
    directory: str = ""
    """The working directory of a command; empty for that of this process."""
    connect_seconds: int = 0
    """Seconds in which a connection has to be made; 0 for `CONNECT_SECONDS`."""
    pinned: str = ""
    """The version that the server is pinned to, or `OF_CALLER`; empty for the newest that it speaks."""
    bearer: Bearer | None = field(default=None, repr=False, compare=False)
    """The token of an OAuth grant, which is sent with every request; `None` for a server without OAuth."""

    @classmethod
    def of(cls, server: SyncedServer) -> Target:
        """The target of a server. A `python:` server with a process of its own is a command."""
        return cls(
            "stdio" if server.own_process else server.transport,
            as_command(server.target) if server.own_process else server.target,
            server.headers,
            server.name,
            server.unusable,
            server.environment,
            server.directory,
            server.connect_seconds,
            server.pinned,
        )

    @property
    def url(self) -> str:
        """The address of an HTTP server, without the `sse+` that may be in front."""
        return self.target.removeprefix(SSE)

    @property
    def sse(self) -> bool:
        """Whether the address is one of HTTP with SSE."""
        return self.transport == "http" and self.target.startswith(SSE)

    @property
    def version(self) -> str:
        """The version in `pinned`; empty if there is none."""
        return "" if self.pinned == OF_CALLER else self.pinned

    def program(self) -> str:
        """The path of a command's program. Raises `Unavailable` if the program or the working directory does not exist,
        or may not be used."""
        environment, words = command_of(self.target)
        if self.directory and not Path(self.directory).is_dir():
            raise Unavailable(f"there is no directory {self.directory} here, or it may not be read")
        program = str(Path(self.directory, words[0])) if "/" in words[0] else words[0]
        found = shutil.which(program, path=dict(self.environment).get("PATH", environment.get("PATH")))
        if found is None:
            raise Unavailable(f"there is no program {words[0]} here, or it may not be run")
        return found

    def check_program(self) -> None:
        """Raises as `program` does, but without the server's secrets in the reason."""
        try:
            self.program()
        except Unavailable as missing:
            raise Unavailable(self.shown(missing.message)) from None

    def reason(self, error: BaseException) -> str:
        """The error in one line, without the server's secrets."""
        return self.shown(reason(error))

    def secrets(self) -> Collection[str]:
        """The server's secrets, each as a message may quote it."""
        fixed = given_secrets(self.headers, self.environment) | secrets_of(self.transport, self.target)
        return fixed if self.bearer is None else Secrets(fixed, self.bearer)

    def hooks(self, *look: Callable[[httpx2.Response], Awaitable[None]]) -> dict[str, list[Callable[..., Any]]]:
        """The hooks of the HTTP client for this server; the functions `look` are called with each response."""
        if self.bearer is None:
            return {"response": [*look]}
        return {"request": [self.bearer.signs(self.url)], "response": [*look, self.bearer.look]}

    def shown(self, text: str) -> str:
        """`text` without the server's secrets, which it may contain if it quotes the address, the command, headers or
        variables."""
        return without_secrets(without_values(text, self.secrets()), self.transport, self.target)


def imported(target: str) -> Any:
    """The object of a `python:` server. Raises `Unavailable`, or what its module raises."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"cannot import {target}: {error}") from None
