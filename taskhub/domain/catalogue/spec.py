"""`[NAME=]SPEC`: how a server is named on the command line and in the console.

`python:package.module:object` (an SDK server, importable from the working directory), `stdio:command arguments`, or an
`http(s)://` URL, with `sse+` in front for HTTP with SSE. If no name is given, it is made from the part of the spec that
differs between servers: the package that a runner runs or the domain, never `npx` or `server`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from taskhub.core.errors import Invalid
from taskhub.core.transports import SSE
from taskhub.lib.signs import code_point, name_of

MAX_SPEC = 2_000
MAX_NAME: Final = 64
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")

_RUNNERS: Final = re.compile(
    r"(npx|npm|pnpx|pnpm|yarn|bunx?|node|deno|tsx|ts-node|uvx?|pipx|py|python[\d.]*|java|dotnet|ruby|php|perl"
    r"|docker|podman|env|sudo|nice|nohup|sh|bash)(\.exe|\.cmd)?"
)
"""Programs that run servers, and say nothing about which server it is."""
_BRIDGES: Final = frozenset({"mcp-remote", "mcp-proxy", "supergateway"})
"""Programs that connect to a server at an address and pass on what that server offers."""
_ADDRESS: Final = re.compile("https?://")
_ORDERS: Final = frozenset({"run", "exec", "dlx", "x", "tool", "container"})
_VALUED: Final = re.compile(
    r"-[pevwu]|-cp|-classpath|--(package|from|with|with-editable|python|directory|project|extra|index-url|env|env-file"
    r"|volume|mount|network|name|workdir|user|entrypoint|platform)"
)
"""Options of the programs in `_RUNNERS` whose value is the next word."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_VERSION: Final = re.compile(r"(?<=\w)(@|==|:)(v?\d[\w.+!-]*|latest)$")
_AFFIXES: Final = frozenset({"mcp", "server", "servers"})
_GENERIC: Final = frozenset(
    {"", "main", "app", "index", "cli", "dist", "src", "build", "bin", "lib", "run", "start", "__main__", "latest"}
)
_SUFFIXES: Final = frozenset(
    {".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".jar", ".dll", ".exe", ".cmd", ".sh", ".rb"}
)
_HOSTS: Final = frozenset({"mcp", "api", "www", "server", "servers", "app"})
_SECOND_LEVEL: Final = frozenset({"co", "com", "org", "net", "ac", "gov", "edu"})


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A parsed spec; `target`: what follows the scheme; for `http` the whole URL. `named`: whether the text gave the
    name; otherwise it is made from the spec."""

    name: str
    transport: str
    target: str
    named: bool


def is_name(text: str) -> bool:
    """Whether a server may have this name."""
    return _NAME.fullmatch(text) is not None


def parse_spec(text: str) -> ServerSpec:
    """Parse a spec. Raises `Invalid`, which says what was expected."""
    text = text.strip()
    if not text or len(text) > MAX_SPEC:
        raise Invalid(f"A server is given as one line of at most {MAX_SPEC:,} characters.", field="spec")
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or ":" in name:
        name, rest = "", text
    if odd := _unprintable(text):
        what = f"{_place_of(odd, rest)} has {code_point(odd)} ({name_of(odd)})"
        raise Invalid(f"{what}. A server is given as one line of printable characters.", field="spec")
    if rest.startswith("python:"):
        target = rest.removeprefix("python:")
        module, _, attribute = target.partition(":")
        if not module or not attribute or not all(part.isidentifier() for part in (*module.split("."), attribute)):
            raise Invalid(f"Expected python:package.module:object, found {rest[:200]!r}.", field="spec")
        return ServerSpec(name or _of_module(module), "python", target, bool(name))
    if rest.startswith("stdio:"):
        target = rest.removeprefix("stdio:").strip()
        try:
            words = shlex.split(target)
        except ValueError as error:
            raise Invalid(f"The command cannot be read: {error}.", field="spec") from None
        if not words:
            raise Invalid("Expected stdio:command and its arguments.", field="spec")
        return ServerSpec(name or _of_command(words), "stdio", target, bool(name))
    url = rest.removeprefix(SSE)
    if url.startswith(("http://", "https://")):
        try:
            parts = urlsplit(url)
            host, port = parts.hostname if parts.port != 0 and " " not in rest else None, parts.port
        except ValueError:
            host = port = None
        if not host:
            raise Invalid("Expected a full URL such as https://example.com/mcp.", field="spec")
        return ServerSpec(name or _of_host(host, port), "http", rest, bool(name))
    raise Invalid(
        f"Expected python:package.module:object, stdio:command, http:// or https://, found {rest[:60]!r}.", field="spec"
    )


def command_of(target: str) -> tuple[dict[str, str], list[str]]:
    """Split the target of a command server into the environment variables that it sets and the words to run. For `env
    NAME=value command`, the words are those of the command alone: every user of the machine could read the values if
    they were arguments of `env`. Raises `ValueError` if the target cannot be parsed."""
    words = shlex.split(target)
    environment: dict[str, str] = {}
    if words and _base(words[0]) == "env":
        rest = words[1:]
        while rest and (found := _ASSIGNMENT.fullmatch(rest[0])):
            environment[found[1]] = found[2]
            rest.pop(0)
        if rest and not rest[0].startswith("-"):  # a call of `env` with options is left as it is
            return environment, rest
    return {}, words


def unversioned(target: str) -> list[str]:
    """The words of a command without the versions of packages and images (`server@1.2.3`, `server==1.2.3`,
    `image:1.2.3`). Raises `ValueError` if the command cannot be parsed."""
    words = shlex.split(target)
    return [word if "://" in word else _VERSION.sub("", word) for word in words]


def name_of_entry(name: str) -> str:
    """The name for the server of a registry's entry: `weather` for `io.github.acme/weather-mcp`, `acme` for
    `com.acme/mcp`."""
    namespace, _, own = name.rpartition("/")
    return _told_apart([namespace.rpartition(".")[2], own]) or clean_name(own)


def _unprintable(text: str) -> str:
    """The first character of the text that is not printable; empty if all are."""
    return next((sign for sign in text if not sign.isprintable()), "")


def _place_of(sign: str, text: str) -> str:
    """The part of a spec that contains the character. An argument is named by its number, since it may be a secret."""
    if not text.startswith("stdio:"):
        return "The text" if "://" not in text else "The address"
    with suppress(ValueError):
        for number, word in enumerate(shlex.split(text.removeprefix("stdio:"))):
            if sign in word:
                return f"Argument {number} of the command" if number else "The program of the command"
    return "The command"


def _of_module(module: str) -> str:
    """The name for a module: `extra-server` for `tests.clients.extra_server`, `weather` for `weather.server`."""
    parts = [part for part in module.split(".") if part not in _GENERIC | _AFFIXES]
    return clean_name((parts or module.split("."))[-1].replace("_", "-"))


def _of_command(words: Sequence[str]) -> str:
    """The name for a command: `filesystem` for `npx -y @scope/server-filesystem /srv`, `weather` for `python -m
    weather.server`. For a program that only passes on what an address offers, the name for that address: `example` for
    `npx -y mcp-remote https://mcp.example.com/sse`."""
    runner, rest, where = _base(words[0]), list(words), ""
    while rest and _RUNNERS.fullmatch(_base(rest[0])):
        runner = _base(rest.pop(0))
        while rest and (rest[0].startswith("-") or rest[0] in _ORDERS or (runner == "env" and "=" in rest[0])):
            word = rest.pop(0)
            if word == "-m" and rest:
                return _told_apart(rest[0].split(".")) or clean_name(runner)
            if rest and _VALUED.fullmatch(word) and not (word == "-u" and runner.startswith("py")):
                value = rest.pop(0)
                where = value if word in ("--directory", "--project") else where
    if not rest:
        return clean_name(runner)
    # Without the version. An `@` at the beginning belongs to an npm scope, and stays.
    package = re.sub(r"(?<=.)(@|==|~=|>=|\[).*", "", re.sub("^(npm|jsr):", "", rest[0]))
    if package in _BRIDGES and (address := next(filter(_ADDRESS.match, rest[1:]), "")):
        with suppress(Invalid):
            return parse_spec(address).name
    image = re.sub(r":[\w.-]+$", "", package)
    return _told_apart([_base(part) for part in re.split(r"[/\\]", f"{where}/{image}")]) or clean_name(runner)


def _of_host(host: str, port: int | None) -> str:
    """The name for a host: `example` for `https://mcp.example.com`. To an IP address or a single label, the port is
    appended."""
    labels = host.rstrip(".").split(".")
    try:
        alone = bool(ip_address(host))
    except ValueError:
        alone = len(labels) == 1
    if alone:
        return clean_name(host if port is None else f"{host}-{port}")
    country = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    names = labels[: -2 if country else -1]
    return clean_name(([name for name in names if name not in _HOSTS] or names)[-1])


def _told_apart(parts: Sequence[str]) -> str:
    """The last part that says more than `mcp` or `server`, as a name without these words; empty if there is no such
    part."""
    for part in reversed(parts):
        words = re.split(r"[-_]+", part.lstrip("@"))
        while len(words) > 1 and words[0].lower() in _AFFIXES:
            words.pop(0)
        while len(words) > 1 and words[-1].lower() in _AFFIXES:
            words.pop()
        found = "-".join(words)
        if found.lower() not in _GENERIC | _AFFIXES and any(sign.isalnum() for sign in found):
            return clean_name(found)
    return ""


def _base(word: str) -> str:
    path = PurePosixPath(word)
    return path.stem if path.suffix in _SUFFIXES else path.name


def clean_name(name: str) -> str:
    """The text without characters that no name may have; `server` if nothing is left."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:MAX_NAME].rstrip("-_.") or "server"
