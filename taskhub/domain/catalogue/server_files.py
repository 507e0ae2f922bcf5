"""Servers as a file describes them, with placeholders for what is asked for. `mcp_json` reads such files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from taskhub.core.errors import Invalid
from taskhub.core.secrets import redacted, secrets_of
from taskhub.domain.catalogue.given import checked_directory, checked_environment, checked_headers
from taskhub.domain.catalogue.spec import MAX_NAME, parse_spec

MAX_FILE: Final = 1_048_576
"""Characters."""

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_COMMENTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
"""A string, a comment or a trailing comma: VS Code's file may have the latter two."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A `${…}` in a file. `key`: the name of the variable, or `input:` and the id of an input of VS Code."""

    key: str
    description: str = ""
    hidden: bool = True
    """Whether it may be a secret: then it is not shown while it is typed."""


@dataclass(frozen=True, slots=True)
class FileServer:
    """A server of a file, ready to be added."""

    name: str
    spec: str = field(repr=False)
    token: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: str = ""
    taken: tuple[str, ...] = ()
    """What of its secrets stands in the file itself: names of headers and variables, `its command`, `its address`."""
    ignored: tuple[str, ...] = ()
    """Settings of it that concern the program, and are not kept."""

    @property
    def transport(self) -> str:
        """The transport of the spec."""
        return self.spec.partition(":")[0] if self.spec.startswith(("stdio:", "python:")) else "http"

    @property
    def shown(self) -> str:
        """The spec without secrets."""
        if self.transport == "http":
            return redacted("http", self.spec)
        return f"{self.transport}:{redacted(self.transport, self.spec.partition(':')[2])}"


@dataclass(frozen=True, slots=True)
class Template:
    """A server of a file, with `${…}` in its texts: either `url`, or the `words` of a command."""

    name: str
    url: str = ""
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    ignored: tuple[str, ...] = ()

    def texts(self) -> Iterator[str]:
        """All of its texts that may have placeholders, in their order."""
        yield from (self.url, *self.words, *self.environment.values(), *self.headers.values(), self.directory)


@dataclass(frozen=True, slots=True)
class ServersFile:
    """What a file says: its servers, and the placeholders in them, in their order. `disabled`: servers that the file
    disables, which are left out."""

    templates: tuple[Template, ...]
    placeholders: tuple[Placeholder, ...]
    disabled: tuple[str, ...] = ()


def document_of(text: str) -> Any:
    """The JSON of a file, which may have comments. Raises `Invalid`, which says what was expected."""
    if len(text) > MAX_FILE:
        raise Invalid(f"The file is larger than {MAX_FILE:,} characters.")
    try:
        return json.loads(
            _COMMENTS.sub(lambda found: found[0] if found[0].startswith('"') else "", text.removeprefix("\ufeff")),
            object_pairs_hook=_object,
        )
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Invalid(f"The file is no JSON{where}.") from None


def keys_of(text: str) -> Iterator[str]:
    """The keys of the placeholders in a text."""
    return map(_key, _PLACEHOLDER.findall(text))


def servers_of(file: ServersFile, values: Mapping[str, str] | None) -> tuple[FileServer, ...]:
    """The servers of a file, with `values` in place of the placeholders, by key; `None` leaves these as they are.
    Raises `Invalid`, which names the server and what is wrong with it, and never a value."""
    return tuple(_server(template, values) for template in file.templates)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid(f"The file has {name[:MAX_NAME]!r} twice in one object. Rename or remove one of them.")
        found[name] = value
    return found


def _key(inside: str) -> str:
    """`env:NAME` and `NAME:-default` are the variable NAME."""
    return inside.removeprefix("env:").partition(":-")[0].strip()


def _server(template: Template, values: Mapping[str, str] | None) -> FileServer:
    def fill(text: str) -> str:
        if values is None:
            return text
        return _PLACEHOLDER.sub(lambda found: values[_key(found[1])], text)

    try:
        headers = {name: fill(text) for name, text in template.headers.items()}
        token = _token(headers)
        made = FileServer(
            template.name,
            fill(template.url) or "stdio:" + shlex.join(map(fill, template.words)),
            token,
            headers,
            {name: fill(text) for name, text in template.environment.items()},
            fill(template.directory),
            tuple(_taken(template)),
            template.ignored,
        )
        checked_headers(made.headers, token=bool(token))
        checked_environment(made.environment)
        if values is None:
            return made
        checked_directory(made.directory)
        if template.url and not made.spec.startswith(("http://", "https://")):
            raise Invalid("its url begins with http:// or https://.")
        parse_spec(f"{template.name}={made.spec}")
    except Invalid as error:
        raise Invalid(f"{template.name}: {error.message}") from None
    return made


def _token(headers: dict[str, str]) -> str:
    """The token in `Authorization: Bearer …`, which is taken out of the headers. A placeholder that is not filled in
    yet may have the scheme."""
    name = next((name for name in headers if name.lower() == "authorization"), "")
    scheme, _, rest = headers.get(name, "").strip().partition(" ")
    if scheme.lower() == "bearer":
        del headers[name]
        if not rest.strip():
            raise Invalid("after `Bearer` in Authorization a token is expected.")
        return rest.strip()
    return headers.pop(name) if scheme.startswith("${") else ""


def _taken(template: Template) -> Iterator[str]:
    word, secrets = "address", secrets_of("http", template.url)
    if template.words:
        word, secrets = "command", secrets_of("stdio", shlex.join(template.words))
    if any("${" not in unquote(secret) for secret in secrets - {"Bearer"}):
        yield f"its {word}"
    for pairs in (template.headers, template.environment):
        yield from (name for name, text in pairs.items() if _PLACEHOLDER.sub("", text).strip() not in ("", "Bearer"))
