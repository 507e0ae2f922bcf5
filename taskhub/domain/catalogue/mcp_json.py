"""Reads the `mcp.json` in which programs keep the servers that they connect to: Claude Desktop and Code, Cursor, VS
Code and others that have `mcpServers` or `servers`. What cannot be kept is refused, never dropped in silence.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.spec import MAX_NAME, clean_name, is_name, parse_spec

MAX_FILE: Final = 1_048_576
"""Characters."""

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
"""A string, a comment or a trailing comma: VS Code's file may have the latter two."""
_KINDS: Final = {"": "", "stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http"}
_URLS: Final = ("url", "httpUrl", "serverUrl")
_KEPT: Final = frozenset({"type", "transport", "command", "args", "env", "headers", "disabled", *_URLS})
_REFUSED: Final = {
    "cwd": "a working directory cannot be kept: name the program and its files by their full paths",
    "envFile": "a file of variables is not read: write them as `env`",
    "oauth": "signing in to a server is not possible: give it a token, as `Authorization: Bearer …`",
    "auth": "signing in to a server is not possible: give it a token, as `Authorization: Bearer …`",
}
"""Settings without which the server would be another."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A `${…}` in a file. `key`: the name of the variable, or `input:` and the id of an input of VS Code."""

    key: str
    description: str = ""
    hidden: bool = True
    """Whether it may be a secret: then it is not shown while it is typed."""


@dataclass(frozen=True, slots=True)
class FileServer:
    """A server of a file. `ignored`: settings of it that concern the program, and are not kept."""

    name: str
    spec: str = field(repr=False)
    token: str = field(default="", repr=False)
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class McpJson:
    """What a file says: its servers as JSON, by name, and the placeholders in them, in their order. `disabled`: servers
    that the file disables, which are left out."""

    entries: Mapping[str, Mapping[str, Any]]
    placeholders: tuple[Placeholder, ...]
    disabled: tuple[str, ...]


def read_mcp_json(text: str) -> McpJson:
    """Read a file. Raises `Invalid`, which says what was expected."""
    if len(text) > MAX_FILE:
        raise Invalid(f"The file is larger than {MAX_FILE:,} characters.")
    try:
        document = json.loads(
            _COMMENTS.sub(lambda found: found[0] if found[0].startswith('"') else "", text.removeprefix("\ufeff")),
            object_pairs_hook=_object,
        )
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Invalid(f"The file is no JSON{where}.") from None
    inputs = {}
    found: dict[str, Mapping[str, Any]] = {}
    for holder, servers in _lists(document):
        for each in holder.get("inputs") or ():
            if isinstance(each, dict) and isinstance(each.get("id"), str):
                inputs[each["id"]] = each
        for given, entry in servers.items():
            name = given if is_name(given) else clean_name(given)
            if name in found:
                raise Invalid(f"The file has two servers named {name}. Rename one of them.")
            if not isinstance(entry, dict):
                raise Invalid(f"{name}: a server is an object with `command` or `url`.")
            found[name] = entry
    if not found:
        raise Invalid('The file has no servers: expected {"mcpServers": {…}} or {"servers": {…}} with at least one.')
    disabled = tuple(name for name, entry in found.items() if entry.get("disabled") is True)
    entries = {name: entry for name, entry in found.items() if name not in disabled}
    keys = dict.fromkeys(key for entry in entries.values() for key in _keys(_used(entry)))
    return McpJson(entries, tuple(_placeholder(key, inputs) for key in keys), disabled)


def servers_of(file: McpJson, values: Mapping[str, str] | None) -> tuple[FileServer, ...]:
    """The servers of a file, with `values` in place of the placeholders, by key; `None` leaves these as they are.
    Raises `Invalid`, which names the server and what is wrong with it, and never a value."""
    return tuple(_server(name, entry, values) for name, entry in file.entries.items())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid(f"The file has {name[:MAX_NAME]!r} twice in one object. Rename or remove one of them.")
        found[name] = value
    return found


def _lists(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The objects of servers, each with the object that it is in."""
    for holder in (document, document.get("mcp") if isinstance(document, dict) else None):
        if isinstance(holder, dict):
            for key in ("mcpServers", "servers"):
                if isinstance(servers := holder.get(key), dict):
                    yield holder, servers


def _used(entry: Mapping[str, Any]) -> list[Any]:
    return [value for key, value in entry.items() if key in _KEPT]


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        for inside in _PLACEHOLDER.findall(value):
            yield _key(inside)
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _keys(part)


def _key(inside: str) -> str:
    """`env:NAME` and `NAME:-default` are the variable NAME."""
    return inside.removeprefix("env:").partition(":-")[0].strip()


def _placeholder(key: str, inputs: Mapping[str, Mapping[str, Any]]) -> Placeholder:
    known = inputs.get(key.removeprefix("input:")) if key.startswith("input:") else None
    if known is None:
        return Placeholder(key)
    return Placeholder(key, str(known.get("description") or "")[:200], hidden=known.get("password") is not False)


def _server(name: str, entry: Mapping[str, Any], values: Mapping[str, str] | None) -> FileServer:
    def fill(text: str) -> str:
        if values is None:
            return text
        return _PLACEHOLDER.sub(lambda found: values[_key(found[1])], text)

    def wrong(why: str) -> Invalid:
        return Invalid(f"{name}: {why}.")

    url = next((entry[key] for key in _URLS if entry.get(key)), None)
    if why := _why_not(entry, url):
        raise wrong(why)
    if url is None:
        made = FileServer(name, _command(entry, fill, wrong))
    else:
        if not isinstance(url, str):
            raise wrong("its url is no text")
        made = FileServer(name, fill(url), _token(entry.get("headers"), fill, wrong))
        if not made.spec.startswith(("http://", "https://", "${")):
            raise wrong("its url begins with http:// or https://")
    if values is not None:
        try:
            parse_spec(f"{name}={made.spec}")
        except Invalid as error:
            raise wrong(error.message.rstrip(".")) from None
    return replace(made, ignored=tuple(key for key in entry if key not in _KEPT))


def _why_not(entry: Mapping[str, Any], url: Any) -> str:
    """Why the hub cannot keep the server as the file has it; empty if it can."""
    for setting, why in _REFUSED.items():
        if entry.get(setting):
            return why
    kind, command = entry.get("type") or entry.get("transport") or "", entry.get("command")
    if kind == "sse":
        return "HTTP with SSE, as of 2024, is not spoken: give its address for Streamable HTTP, if it has one"
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"expected the type `stdio` or `http`, not {str(kind)[:40]!r}"
    if (command is None) == (url is None):
        return "expected either `command` or `url`"
    if _KINDS[kind] and (_KINDS[kind] == "stdio") != (command is not None):
        return f"its type is {kind}, but it has no {'command' if _KINDS[kind] == 'stdio' else 'url'}"
    return ""


def _command(entry: Mapping[str, Any], fill: Callable[[str], str], wrong: Callable[[str], Invalid]) -> str:
    args, env = entry.get("args") or [], entry.get("env") or {}
    if not isinstance(entry["command"], str) or not entry["command"].strip():
        raise wrong("its command is no text")
    if not isinstance(args, list) or not all(isinstance(word, str | int | float) for word in args):
        raise wrong("its args are no list of texts")
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float) for value in env.values()):
        raise wrong("its env is no object of texts")
    odd = next((variable for variable in env if not _VARIABLE.fullmatch(variable)), None)
    if odd is not None:
        raise wrong(f"{odd[:40]!r} is no name of a variable")
    words = [fill(entry["command"]), *(fill(str(word)) for word in args)]
    settings = [f"{variable}={fill(str(value))}" for variable, value in env.items()]
    return "stdio:" + shlex.join(["env", *settings, *words] if settings else words)


def _token(headers: Any, fill: Callable[[str], str], wrong: Callable[[str], Invalid]) -> str:
    token = ""
    if headers is not None and not isinstance(headers, dict):
        raise wrong("its headers are no object")
    for header, value in (headers or {}).items():
        if header.lower() != "authorization":
            raise wrong(f"the header {header[:40]} cannot be kept: only `Authorization: Bearer …` is sent to a server")
        text = fill(value).strip() if isinstance(value, str) else ""
        scheme, _, rest = text.partition(" ")
        if scheme.lower() == "bearer" and rest.strip():
            token = rest.strip()
        elif text.startswith("${"):  # not filled in yet; it may have the scheme
            token = text
        else:
            raise wrong("of `Authorization` only `Bearer` and a token can be kept")
    return token
