"""Reads a server's entry in the official MCP registry, `server.json`, also inside an answer of the registry.

The fields are those of the schema of 2025-12-11,
https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json; earlier schemas, from 2025-09-16 on,
differ in nothing that is read here. A package becomes the command that runs exactly this version of it, a remote an
address. An input that the entry asks for becomes a placeholder. A secret is always asked for, even if the entry has a
value or a default for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.server_files import Placeholder, ServersFile, Template, Word, address_of, keys_of
from taskhub.domain.catalogue.spec import MAX_NAME, is_name, name_of_entry

MAX_ITEMS: Final = 100
"""The most packages of an entry, and also most remotes, arguments, variables, headers and choices."""

WAYS: Final = ("http", "npm", "pypi", "oci", "sse")
"""The ways to reach the server of an entry, the preferred one first: an address, since then no foreign program runs
here."""

_SCHEMA: Final = re.compile(r"/schemas/[^/]+/server\.schema\.json$")
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_NO_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_NPM: Final = re.compile(r"(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*", re.IGNORECASE)
_NPM_VERSION: Final = re.compile(r"\d+\.\d+\.\d+([-+][A-Za-z0-9.+-]+)?")
_PYPI: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PYPI_VERSION: Final = re.compile(r"v?\d[A-Za-z0-9.!+_-]*")
_IMAGE: Final = re.compile(r"[a-z0-9][a-z0-9._:/-]*[a-z0-9]")
_TAG: Final = re.compile(r"(:(?P<tag>[\w][\w.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?$")
_REGISTRIES: Final = {
    "npm": ("https://registry.npmjs.org",),
    "pypi": ("https://pypi.org", "https://pypi.org/simple"),
    "oci": ("https://docker.io", "https://ghcr.io"),
}
_OLD: Final = frozenset({"registry_name", "registry_type", "transport_type", "environment_variables"})
"""Names of fields before 2025-09-16."""


def is_entry(document: Any) -> bool:
    """Whether a JSON document is an entry of the registry, or an answer of the registry with an entry."""
    entry = _entry(document)
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    schema = entry.get("$schema")
    return "packages" in entry or "remotes" in entry or (isinstance(schema, str) and bool(_SCHEMA.search(schema)))


def of_entry(document: Any, *, way: str = "", name: str = "") -> ServersFile:
    """The server of an entry. `way`: how the server is reached, one of `WAYS`; by default the first of `WAYS` that the
    entry has and that can be used. `name`: the server's name in the hub; by default made from the entry's name
    (`spec.name_of_entry`). Raises `Invalid`, which says what was expected."""
    entry = _entry(document)
    given = name or name_of_entry(entry["name"])
    if name and not is_name(name):
        raise Invalid(f"{name[:MAX_NAME]!r} is no name for a server.", field="name")
    ways: dict[str, Callable[[], ServersFile]] = {}
    unusable: dict[str, str] = {}
    for found, read in _ways(entry, given):
        if found not in WAYS:
            unusable.setdefault(found, "it is not one that can be run here")
        elif found not in ways:
            try:
                read()
            except Invalid as error:
                unusable.setdefault(found, error.message.rstrip("."))
            else:
                ways[found] = read
    chosen = way or next((each for each in WAYS if each in ways), "")
    if chosen not in ways:
        has = ", ".join(sorted({*ways, *unusable}, key=_rank)) or "none"
        if way and way not in unusable:
            raise Invalid(f"{given}: It has no {way[:40]!r}; it has {has}.", field="way")
        why = "; ".join(f"{each}: {unusable[each]}" for each in ([way] if way else unusable))
        none = "This way cannot" if way else "None of its ways can"
        raise Invalid(f"{given}: {none} be used. {why or 'It has none'}."[:2_000], field="way")
    file = ways[chosen]()
    others = tuple(sorted((each for each in ways if each != chosen), key=_rank))
    return ServersFile(file.templates, file.placeholders, way=chosen, other_ways=others)


def _entry(document: Any) -> Any:
    inside = document.get("server") if isinstance(document, dict) else None
    return inside if isinstance(inside, dict) else document


def _rank(way: str) -> tuple[int, str]:
    return (WAYS.index(way) if way in WAYS else len(WAYS), way)


def _ways(entry: Mapping[str, Any], name: str) -> Iterator[tuple[str, Callable[[], ServersFile]]]:
    for remote in _list(entry, "remotes"):
        kind = remote.get("type")
        if kind in ("streamable-http", "sse"):
            yield ("http" if kind == "streamable-http" else "sse"), _Reader(name).remote_of(remote)
        else:
            yield f"remote of type {str(kind)[:40]!r}", _Reader(name).remote_of(remote)
    for package in _list(entry, "packages"):
        yield str(package.get("registryType"))[:40], _Reader(name).package_of(package)


def _list(holder: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = holder.get(key) or []
    if not isinstance(found, list) or len(found) > MAX_ITEMS or not all(isinstance(each, dict) for each in found):
        raise Invalid(f"The entry's `{key}` is no list of at most {MAX_ITEMS} objects.")
    if any(_OLD & each.keys() for each in found):
        raise Invalid("The entry is in a form of before 2025-09-16, which is not read: get it from the registry anew.")
    return found


class _Reader:
    """Reads one way to reach the server of an entry, and collects the placeholders."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: dict[str, Placeholder] = {}

    def remote_of(self, remote: Mapping[str, Any]) -> Callable[[], ServersFile]:
        def read() -> ServersFile:
            url, variables = remote.get("url"), remote.get("variables")
            if not isinstance(url, str) or not url:
                raise Invalid("it has no url.")
            url = address_of(self._with_variables(url, variables, needed=True), sse=remote["type"] == "sse")
            return self._file(Template(self._name, url=url, headers=self._pairs(remote, "headers")))

        return read

    def package_of(self, package: Mapping[str, Any]) -> Callable[[], ServersFile]:
        def read() -> ServersFile:
            kind, transport = str(package.get("registryType")), package.get("transport")
            if isinstance(transport, dict) and transport.get("type", "stdio") != "stdio":
                raise Invalid("the package is a server with HTTP: start it, and add its address.")
            if package.get("fileSha256"):
                raise Invalid("it names the SHA-256 of the package's file, which cannot be checked here.")
            base = package.get("registryBaseUrl")
            if base and str(base).rstrip("/") not in _REGISTRIES[kind]:
                raise Invalid(f"its package is in another registry, {str(base)[:200]}: add it as a command.")
            environment = self._pairs(package, "environmentVariables")
            runs = {"npm": self._npm, "pypi": self._pypi, "oci": self._oci}[kind](package, environment)
            words = (*runs, *self._words(package, "packageArguments"))
            return self._file(Template(self._name, words=words, environment=environment))

        return read

    def _file(self, template: Template) -> ServersFile:
        for text in template.texts():
            for key in keys_of(text):
                self._asked.setdefault(key, Placeholder(key))
        return ServersFile((template,), tuple(self._asked.values()))

    def _npm(self, package: Mapping[str, Any], environment: Mapping[str, str]) -> list[Word]:
        name, version = _pinned(package, _NPM, _NPM_VERSION)
        options = self._options(package, ("npx",))
        yes = [] if any(word.text in ("-y", "--yes") for word in options) else [Word("-y")]
        return [Word("npx"), *yes, *options, Word(f"{name}@{version}")]

    def _pypi(self, package: Mapping[str, Any], environment: Mapping[str, str]) -> list[Word]:
        name, version = _pinned(package, _PYPI, _PYPI_VERSION)
        return [Word("uvx"), *self._options(package, ("uvx",)), Word(f"{name}=={version}")]

    def _oci(self, package: Mapping[str, Any], environment: Mapping[str, str]) -> list[Word]:
        image, version = str(package.get("identifier", "")), str(package.get("version") or "")
        bare = _TAG.sub("", image)
        pin = _TAG.search(image)
        if pin is not None and not pin["tag"] and not pin["digest"] and version:
            image = f"{image}:{version}"
            pin = _TAG.search(image)
        if not _IMAGE.fullmatch(bare) or pin is None:
            raise Invalid(f"{image[:200]!r} is no name of an image.")
        if not pin["digest"] and pin["tag"] in (None, "latest"):
            raise Invalid(f"the image {image[:200]} has no version: expected a tag other than `latest`, or a digest.")
        options = self._options(package, ("docker", "podman"))
        if options and options[0].text == "run":
            options = options[1:]
        options = [word for word in options if word.text not in ("-i", "--interactive", "--rm", "-t", "-it")]
        variables: list[Word] = []
        for name, text in environment.items():
            variables += [Word("-e", goes_with=text), Word(name, goes_with=text)]
        program = "podman" if package.get("runtimeHint") == "podman" else "docker"
        return [Word(program), Word("run"), Word("-i"), Word("--rm"), *variables, *options, Word(image)]

    def _options(self, package: Mapping[str, Any], programs: tuple[str, ...]) -> list[Word]:
        """The arguments for the program that runs the package."""
        words, hint = self._words(package, "runtimeArguments"), package.get("runtimeHint") or programs[0]
        if words and hint not in programs:
            raise Invalid(f"it is to be run by {str(hint)[:40]!r}, which is not known: add it as a command.")
        return words

    def _words(self, package: Mapping[str, Any], key: str) -> list[Word]:
        found: list[Word] = []
        # `--flag` of a runner such as docker often has a description and no value, because it takes none.
        flag = {"type", "name"} | ({"description"} if key == "runtimeArguments" else set())
        for number, argument in enumerate(_list(package, key), start=1):
            kind, name = argument.get("type"), argument.get("name")
            if kind == "positional":
                text = self._text(str(argument.get("valueHint") or f"argument-{number}"), argument)
                found.append(Word(text, several=argument.get("isRepeated") is True and "value" not in argument))
            elif kind != "named" or not isinstance(name, str) or not name:
                raise Invalid(f"one of its `{key}` is neither positional nor named.")
            elif argument.keys() <= flag:
                found.append(Word(name))
            else:
                text = self._text(name.lstrip("-"), argument)
                found += [Word(f"{name}={text}")] if name.startswith("--") else [Word(name, goes_with=text), Word(text)]
        return found

    def _pairs(self, holder: Mapping[str, Any], key: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in _list(holder, key):
            name = each.get("name")
            if not isinstance(name, str) or name in found:
                raise Invalid(f"one of its `{key}` has no name, or one that another has.")
            found[name] = self._text(name, each)
        return found

    def _text(self, key: str, given: Mapping[str, Any], *, needed: bool = False, secret: bool = False) -> str:
        """The text for an input of the entry: the input's value, in which variables become placeholders; or a
        placeholder, if there is no value or a secret is to be asked for."""
        value, variables = given.get("value"), given.get("variables")
        needed = needed or given.get("isRequired") is True
        secret = secret or given.get("isSecret") is True
        if isinstance(value, str) and value:
            text = self._with_variables(value, variables, needed=needed, secret=secret)
            if not secret or text != value:
                return text
        return self._placeholder(key, given, needed=needed, secret=secret)

    def _with_variables(self, text: str, variables: Any, *, needed: bool = False, secret: bool = False) -> str:
        known = variables if isinstance(variables, dict) else {}

        def put(found: re.Match[str]) -> str:
            inside = known.get(found[1])
            if not isinstance(inside, dict):
                return found[0]
            return self._text(found[1], inside, needed=needed, secret=secret)

        return _VARIABLE.sub(put, text)

    def _placeholder(self, key: str, given: Mapping[str, Any], *, needed: bool, secret: bool) -> str:
        key = _NO_KEY.sub("-", key)[:100] or "value"
        choices, default = given.get("choices") or [], given.get("default")
        if not isinstance(choices, list) or len(choices) > MAX_ITEMS:
            raise Invalid(f"the choices of {key} are no list of at most {MAX_ITEMS}.")
        before = self._asked.get(key)
        self._asked[key] = Placeholder(
            key,
            str(given.get("description") or (before.description if before else ""))[:200],
            hidden=secret or (before is not None and before.hidden),
            secret=secret or (before is not None and before.secret),
            needed=needed or (before is not None and before.needed),
            default="" if secret or default is None else str(default)[:1_000],
            choices=tuple(str(choice)[:200] for choice in choices),
        )
        return f"${{{key}}}"


def _pinned(package: Mapping[str, Any], name: re.Pattern[str], version: re.Pattern[str]) -> tuple[str, str]:
    """The name and version of a package. Raises `Invalid` unless the version is a single one."""
    found, pin = str(package.get("identifier") or ""), str(package.get("version") or "")
    if not name.fullmatch(found):
        raise Invalid(f"{found[:200]!r} is no name of a package.")
    if not version.fullmatch(pin):
        raise Invalid(f"the package {found} has no version: expected one alone such as 1.2.3, not {pin[:40]!r}.")
    return found, pin
