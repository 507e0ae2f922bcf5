"""`[NAME=]SPEC`: how a server is named on the command line and in the console.

`python:package.module:object` (an SDK server, importable from the working directory),
`stdio:command arguments`, or an `http(s)://` URL.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from urllib.parse import urlsplit

from taskhub.core.errors import Invalid

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A parsed spec; `target` is what follows the scheme (the whole URL for http)."""

    name: str
    transport: str
    target: str


def parse_spec(text: str) -> ServerSpec:
    """Raises `Invalid`, saying what was expected."""
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.match(name) or ":" in name:
        name, rest = "", text
    if rest.startswith("python:"):
        target = rest.removeprefix("python:")
        module, _, attribute = target.partition(":")
        if not module or not attribute or not all(part.isidentifier() for part in (*module.split("."), attribute)):
            raise Invalid(f"python:package.module:object expected, not {rest!r}")
        return ServerSpec(name or module.split(".")[-1].replace("_", "-"), "python", target)
    if rest.startswith("stdio:"):
        target = rest.removeprefix("stdio:").strip()
        try:
            words = shlex.split(target)
        except ValueError as error:
            raise Invalid(f"stdio:command expected: {error}") from None
        if not words:
            raise Invalid("stdio:command expected, and no command was given")
        return ServerSpec(name or re.sub(r"[^A-Za-z0-9_.-]", "-", words[0].split("/")[-1])[:64], "stdio", target)
    if rest.startswith(("http://", "https://")):
        try:
            host = urlsplit(rest).hostname
        except ValueError:
            host = None
        if not host:
            raise Invalid(f"A URL with a host expected, not {rest!r}")
        return ServerSpec(name or re.sub(r"[^A-Za-z0-9_.-]", "-", host), "http", rest)
    raise Invalid(f"A server is python:…, stdio:… or http(s)://…, not {rest!r}")
