"""Servers as a file describes them, with placeholders for values that people are asked for. `mcp_json` and
`registry_entry` read such files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from urllib.parse import unquote

from taskhub.core.errors import Invalid
from taskhub.core.secrets import redacted, secrets_of
from taskhub.core.transports import SSE
from taskhub.domain.catalogue.given import checked_directory, checked_environment, checked_headers
from taskhub.domain.catalogue.spec import MAX_NAME, parse_spec

MAX_FILE: Final = 1_048_576
"""The most characters of a file."""

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_COMMENTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])')
"""Matches a string, or a trailing comma, which VS Code's file may have."""


Fill = Callable[[str], str | None]
"""A function that puts values in place of the placeholders of a text. It returns `None` if the text is to be left
out."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A `${…}` in a file. `key`: the name of the variable, or `input:` and the id of an input of VS Code."""

    key: str
    description: str = ""
    hidden: bool = True
    """Whether the value may be a secret: then it is not shown while it is typed, and has no default."""
    secret: bool = False
    """Whether the file says that the value is a secret: then it may be used only where it is not shown."""
    needed: bool = True
    """Whether the server needs a value. If it does not, and none is given, the text with the placeholder is left
    out."""
    default: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileOAuth:
    """How a server of a file is authorized by OAuth. What empty fields leave open is found out from the server and its
    authorization server. `by_client`: whether it is authorized by client credentials. Otherwise each person or client
    authorizes it, as with the program that wrote the file."""

    client_id: str = ""
    secret: str = field(default="", repr=False)
    issuer: str = ""
    scopes: str = ""
    by_client: bool = False


@dataclass(frozen=True, slots=True)
class FileServer:
    """A server of a file, ready to be added."""

    name: str
    spec: str = field(repr=False)
    token: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: str = ""
    oauth: FileOAuth | None = None
    taken: tuple[str, ...] = ()
    """Where the file itself contains secrets of the server, as text for people: names of headers and variables, or the
    words "its command", "its address" or "its client secret"."""
    ignored: tuple[str, ...] = ()
    """Settings of the server in the file that the hub does not keep, because they concern only the program that wrote
    it."""

    @property
    def transport(self) -> str:
        """The transport of the spec."""
        return self.spec.partition(":")[0] if self.spec.startswith(("stdio:", "python:")) else "http"

    @property
    def shown_target(self) -> str:
        """The address or command without secrets."""
        target = self.spec if self.transport == "http" else self.spec.partition(":")[2]
        return redacted(self.transport, target)

    @property
    def shown_oauth(self) -> str:
        """How the server is authorized by OAuth, in a few words without secrets; empty if it is not."""
        if (oauth := self.oauth) is None:
            return ""
        parts = (("as client ", oauth.client_id), ("at ", oauth.issuer), ("with the scopes ", oauth.scopes))
        words = ["OAuth by client credentials" if oauth.by_client else "OAuth"]
        return ", ".join([*words, *(f"{word}{value}" for word, value in parts if value)])


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command."""

    text: str
    several: bool = False
    """Whether the value of its placeholder is several words, separated as in a shell."""
    goes_with: str = ""
    """The text of another word. If that word is left out, this word is left out too."""


@dataclass(frozen=True, slots=True)
class Template:
    """A server of a file, whose texts may have placeholders. It has either a `url`, or the `words` of a command."""

    name: str
    url: str = ""
    words: tuple[Word, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    oauth: FileOAuth | None = None
    ignored: tuple[str, ...] = ()

    def texts(self) -> Iterator[str]:
        """All texts of the server that may have placeholders, in the order in which people are asked for values."""
        yield self.url
        yield from (word.text for word in self.words)
        yield from self.environment.values()
        yield from self.headers.values()
        yield self.directory
        if self.oauth is not None:
            yield from (self.oauth.client_id, self.oauth.secret, self.oauth.issuer, self.oauth.scopes)


@dataclass(frozen=True, slots=True)
class ServersFile:
    """The content of a file: its servers, and the placeholders in them, in order. `disabled`: servers that the file
    disables, which are left out. For an entry of the registry, `way` is the way to reach its server, and `other_ways`
    are the other ways that could be used."""

    templates: tuple[Template, ...]
    placeholders: tuple[Placeholder, ...]
    disabled: tuple[str, ...] = ()
    way: str = ""
    other_ways: tuple[str, ...] = ()


def document_of(text: str) -> Any:
    """The JSON of a file, which may have comments. Raises `Invalid`, which says what was expected."""
    if len(text) > MAX_FILE:
        raise Invalid(f"The file is larger than {MAX_FILE:,} characters.")
    plain = _TRAILING.sub(_only_strings, _COMMENTS.sub(_only_strings, text.removeprefix("\ufeff")))
    try:
        return json.loads(plain, object_pairs_hook=_object)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Invalid(f"The file is no JSON{where}.") from None


def address_of(url: str, *, sse: bool) -> str:
    """The spec of a URL. `sse`: whether the server speaks HTTP with SSE."""
    return f"{SSE}{url}" if sse else url


def keys_of(text: str) -> Iterator[str]:
    """The keys of the placeholders in a text."""
    return map(_key, _PLACEHOLDER.findall(text))


def servers_of(file: ServersFile, values: Mapping[str, str] | None) -> tuple[FileServer, ...]:
    """The servers of a file, with `values` in place of the placeholders, by key. If `values` is `None`, the
    placeholders stay. A text with an optional placeholder that has no value is left out. Raises `Invalid`, which names
    the server or the placeholder and what is wrong with it, and never a secret."""
    if values is None:
        return tuple(_server(template, _as_it_is) for template in file.templates)
    known = dict(values)
    for asked in file.placeholders:
        value = known.setdefault(asked.key, "")
        if not value and asked.needed and asked.key not in values:
            raise Invalid(f"There is no value for {asked.key[:100]}.")
        if value and asked.choices and value not in asked.choices:
            raise Invalid(f"{asked.key[:100]} is one of {', '.join(asked.choices)[:300]}.")
    secrets = {asked.key: known[asked.key] for asked in file.placeholders if asked.secret and known[asked.key]}
    optional = {asked.key for asked in file.placeholders if not asked.needed}

    def fill(text: str) -> str | None:
        if any(key in optional and not known[key] for key in keys_of(text)):
            return None
        return _PLACEHOLDER.sub(lambda found: known[_key(found[1])], text)

    made = tuple(_server(template, fill) for template in file.templates)
    for template, server in zip(file.templates, made, strict=True):
        for key in dict.fromkeys(key for text in template.texts() for key in keys_of(text)):
            if key in secrets and secrets[key] in server.shown_target:
                raise Invalid(
                    f"{template.name}: the secret {key[:100]} would stand in its command or address, which is shown."
                    " Give it as a variable or a header."
                )
            if key in secrets and secrets[key] in server.shown_oauth:
                raise Invalid(
                    f"{template.name}: the secret {key[:100]} would stand in its client id, issuer or scopes, which are"
                    " shown."
                )
    return made


def supposed_values(file: ServersFile, given: Mapping[str, str]) -> dict[str, str]:
    """A value for each placeholder of the file, so that the file can be checked before all values are known: the value
    in `given`, otherwise the default, otherwise the first of the choices, otherwise a made-up value that fits where the
    placeholder stands."""
    texts = [text for template in file.templates for text in template.texts()]
    urls = [template.url.removeprefix(SSE) for template in file.templates]
    urls += [template.oauth.issuer for template in file.templates if template.oauth]
    paths = [template.directory.strip() for template in file.templates]
    # Made-up values are numbers, because the placeholder may be a port. None of them is in the file, so that it is
    # found only where the placeholder stands.
    numbers = filter(lambda number: not any(number in text for text in texts), map(str, count(20_000)))

    def supposed(asked: Placeholder) -> str:
        known = given.get(asked.key, asked.default)
        if known or asked.key in given or not asked.needed:
            return known
        if asked.choices:
            return asked.choices[0]
        begins = {
            text for text in (*urls, *paths) if (found := _PLACEHOLDER.match(text)) and _key(found[1]) == asked.key
        }
        number = next(numbers)
        return f"https://{number}.example" if begins.intersection(urls) else f"/{number}" if begins else number

    return {asked.key: supposed(asked) for asked in file.placeholders}


def _only_strings(found: re.Match[str]) -> str:
    """What replaces a match: a string stays as it is, and of any other match only its line breaks stay, so that errors
    name the right line."""
    return found[0] if found[0].startswith('"') else "\n" * found[0].count("\n")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid(f"The file has {name[:MAX_NAME]!r} twice in one object. Rename or remove one of them.")
        found[name] = value
    return found


def _key(inside: str) -> str:
    """The key of the placeholder whose text between the braces is `inside`: `NAME` for `env:NAME` and for
    `NAME:-default`."""
    return inside.removeprefix("env:").partition(":-")[0].strip()


def _as_it_is(text: str) -> str | None:
    return text


def _server(template: Template, fill: Fill) -> FileServer:
    try:
        headers = _filled(template.headers, fill)
        token = _token(headers)
        made = FileServer(
            template.name,
            fill(template.url) or "stdio:" + shlex.join(_words(template.words, fill)),
            token,
            headers,
            _filled(template.environment, fill),
            fill(template.directory) or "",
            _oauth(template.oauth, fill),
            tuple(_taken(template)),
            template.ignored,
        )
        checked_headers(made.headers, token=bool(token))
        checked_environment(made.environment)
        if fill is _as_it_is:
            return made
        checked_directory(made.directory)
        if template.url and not made.spec.removeprefix(SSE).startswith(("http://", "https://")):
            raise Invalid("its url begins with http:// or https://.")
        parse_spec(f"{template.name}={made.spec}")
    except Invalid as error:
        raise Invalid(f"{template.name}: {error.message}") from None
    return made


def _filled(pairs: Mapping[str, str], fill: Fill) -> dict[str, str]:
    return {name: value for name, text in pairs.items() if (value := fill(text)) is not None}


def _oauth(oauth: FileOAuth | None, fill: Fill) -> FileOAuth | None:
    if oauth is None:
        return None
    return FileOAuth(
        fill(oauth.client_id) or "",
        fill(oauth.secret) or "",
        fill(oauth.issuer) or "",
        fill(oauth.scopes) or "",
        oauth.by_client,
    )


def _words(words: Iterable[Word], fill: Fill) -> Iterator[str]:
    for word in words:
        text = fill(word.text)
        if text is None or fill(word.goes_with) is None:
            continue
        if not word.several or fill is _as_it_is:
            yield text
            continue
        try:
            yield from shlex.split(text)
        except ValueError:
            raise Invalid(f"the value of {', '.join(keys_of(word.text))} has a quote that is not closed.") from None


def _token(headers: dict[str, str]) -> str:
    """The token in `Authorization: Bearer …`, which is removed from the headers. A placeholder that is not filled in
    yet may contain the scheme."""
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
        word, secrets = "command", secrets_of("stdio", shlex.join(word.text for word in template.words))
    if any("${" not in unquote(secret) for secret in secrets - {"Bearer"}):
        yield f"its {word}"
    for pairs in (template.headers, template.environment):
        yield from (name for name, text in pairs.items() if _PLACEHOLDER.sub("", text).strip() not in ("", "Bearer"))
    if template.oauth is not None and _PLACEHOLDER.sub("", template.oauth.secret).strip():
        yield "its client secret"
