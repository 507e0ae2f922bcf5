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

MAX_SPEC = 2_000
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A parsed spec; `target` is what follows the scheme (the whole URL for http)."""

    name: str
    transport: str
    target: str


def parse_spec(text: str) -> ServerSpec:
    """Raises `Invalid`, saying what was expected."""
    text = text.strip()
    if not text or len(text) > MAX_SPEC or not text.isprintable():
        raise Invalid(f"A server is given as one line of at most {MAX_SPEC:,} characters.", field="spec")
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or ":" in name:
        name, rest = "", text
    if rest.startswith("python:"):
        target = rest.removeprefix("python:")
        module, _, attribute = target.partition(":")
        if not module or not attribute or not all(part.isidentifier() for part in (*module.split("."), attribute)):
            raise Invalid(f"Expected python:package.module:object, found {rest[:200]!r}.", field="spec")
        return ServerSpec(name or module.split(".")[-1].replace("_", "-"), "python", target)
    if rest.startswith("stdio:"):
        target = rest.removeprefix("stdio:").strip()
        try:
            words = shlex.split(target)
        except ValueError as error:
            raise Invalid(f"The command cannot be read: {error}.", field="spec") from None
        if not words:
            raise Invalid("Expected stdio:command and its arguments.", field="spec")
        return ServerSpec(name or re.sub(r"[^A-Za-z0-9_.-]", "-", words[0].split("/")[-1])[:64], "stdio", target)
    if rest.startswith(("http://", "https://")):
        try:
            parts = urlsplit(rest)
            host = parts.hostname if parts.port != 0 and " " not in rest else None
        except ValueError:
            host = None
        if not host:
            raise Invalid("Expected a full URL such as https://example.com/mcp.", field="spec")
        return ServerSpec(name or re.sub(r"[^A-Za-z0-9_.-]", "-", host), "http", rest)
    raise Invalid(
        f"Expected python:package.module:object, stdio:command, http:// or https://, found {rest[:60]!r}.", field="spec"
    )
