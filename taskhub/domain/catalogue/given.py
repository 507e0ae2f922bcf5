"""What a server is given when a worker connects to it, besides its address or command: headers, variables of its
environment, a working directory, and the time to connect. Values of headers and variables are secrets: they are stored
encrypted, each under its name, and no page shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Final

from taskhub.core.errors import Invalid
from taskhub.core.transports import MOST_CONNECT_SECONDS, SSE
from taskhub.core.versions import OF_CALLER, Version, is_stateless
from taskhub.domain.catalogue.reads import opened, vault
from taskhub.lib.signing import InvalidToken

MAX_PAIRS: Final = 50
"""The most headers of a server, or variables of a command."""
MAX_HEADER: Final = 4_096
"""The most characters of a header's value."""
MAX_VARIABLE: Final = 32_768
"""The most bytes of a variable's value."""
MAX_DIRECTORY: Final = 1_000

Pairs = Mapping[str, str | None]
"""Values by name. `None` stands for the value that is stored under the name."""
Stored = Mapping[str, str]
"""Encrypted values by name, as a column has them."""

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_OURS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host"),
        *("keep-alive", "last-event-id", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that the MCP client sets itself. Those whose names begin with `mcp-` it sets too."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def checked_headers(pairs: Pairs, *, token: bool = False) -> Pairs:
    """The headers, with trimmed values. `token`: whether the server has a token, which is sent as `Authorization`.
    Raises `Invalid`, whose message never contains a value."""
    seen: set[str] = set()
    for name in pairs:
        if not _HEADER.fullmatch(name):
            raise Invalid(f"{name[:100]!r} is no name of a header.", field="headers")
        low = name.lower()
        if low in seen:
            raise Invalid(f"The header {name} is given twice.", field="headers")
        seen.add(low)
        if low in _OURS or low.startswith("mcp-"):
            raise Invalid(f"The header {name} is set by TaskHub itself.", field="headers")
        if low == "authorization" and token:
            raise Invalid("A token is sent as the header Authorization: give one of them, not both.", field="headers")

    def check(name: str, value: str) -> str:
        value = value.strip()
        if len(value) > MAX_HEADER or not _VALUE.fullmatch(value):
            raise Invalid(
                f"The value of the header {name} has 1 to {MAX_HEADER:,} characters of ASCII, in one line.",
                field="headers",
            )
        return value

    return _checked(pairs, check, "headers", "headers")


def checked_environment(pairs: Pairs) -> Pairs:
    """The variables. Raises `Invalid`, whose message never contains a value."""
    for name in pairs:
        if not VARIABLE.fullmatch(name):
            raise Invalid(f"{name[:100]!r} is no name of a variable.", field="environment")

    def check(name: str, value: str) -> str:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            size = MAX_VARIABLE + 1
        if size > MAX_VARIABLE or "\0" in value:
            raise Invalid(
                f"The value of the variable {name} is text without U+0000 of at most {MAX_VARIABLE:,} bytes.",
                field="environment",
            )
        return value

    return _checked(pairs, check, "environment", "variables")


def checked_directory(directory: str) -> str:
    """The path; empty for the worker's own directory. Raises `Invalid`."""
    directory = directory.strip()
    if not directory:
        return ""
    if len(directory) > MAX_DIRECTORY or not directory.isprintable() or not PurePosixPath(directory).is_absolute():
        raise Invalid(
            f"A working directory is a full path such as /srv/notes, of at most {MAX_DIRECTORY:,} characters.",
            field="directory",
        )
    return directory


def checked_connect_seconds(seconds: int | None) -> int | None:
    """The seconds, or `None` for the default. Raises `Invalid`."""
    if seconds is not None and not 1 <= seconds <= MOST_CONNECT_SECONDS:
        raise Invalid(f"From 1 to {MOST_CONNECT_SECONDS}.", field="connect_seconds")
    return seconds


def sealed(wanted: Pairs, stored: Stored, *, field: str) -> dict[str, str]:
    """The encrypted values to store for `wanted`. The encrypted text in `stored` is kept where `wanted` has `None` or
    the same value. Raises `Invalid` for a name that has a value neither in `wanted` nor in `stored`."""
    found = {}
    for name, value in wanted.items():
        if value is None and name not in stored:
            raise Invalid(f"Give a value for {name[:100]}.", field=field)
        keeps = value is None or (name in stored and _is(stored[name], value))
        found[name] = stored[name] if keeps or value is None else vault().encrypt(value).decode()
    return found


def _is(stored: str, value: str) -> bool:
    try:
        return opened({"": stored}) == (("", value),)
    except InvalidToken:
        return False


def _checked(pairs: Pairs, check: Callable[[str, str], str], field: str, words: str) -> Pairs:
    if len(pairs) > MAX_PAIRS:
        raise Invalid(f"A server has at most {MAX_PAIRS} {words}.", field=field)
    return {name: None if value is None else check(name, value) for name, value in pairs.items()}


def checked_pinned(pinned: str, target: str) -> str:
    """The version of the protocol to which a server with this target is to be pinned, without blanks around it; empty
    for none. Raises `Invalid` for a version that is unknown, or is not spoken with such a target."""
    pinned = pinned.strip()
    if pinned and pinned not in (*Version, OF_CALLER):
        raise Invalid(f"Expected one of {', '.join(Version)} or {OF_CALLER}.", field="pinned")
    if is_stateless(pinned) and target.startswith(SSE):
        raise Invalid(f"{pinned} is not spoken over HTTP with SSE.", field="pinned")
    return pinned
