"""Reads the `mcp.json` in which programs keep the servers that they connect to: Claude Desktop and Code, Cursor, VS
Code, Windsurf, Zed and others that have `mcpServers`, `servers` or `context_servers`. A setting that the hub cannot
keep is either refused or reported as ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.oauth_entries import oauth_of, secret_key
from taskhub.domain.catalogue.server_files import (
    Placeholder,
    ServersFile,
    Template,
    Word,
    address_of,
    document_of,
    keys_of,
)
from taskhub.domain.catalogue.spec import clean_name, is_name

_KINDS: Final = {
    "": "",
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_LISTS: Final = ("mcpServers", "servers", "context_servers")
_URLS: Final = ("url", "httpUrl", "serverUrl")
_KEPT: Final = frozenset(
    {"type", "transport", "source", "command", "args", "env", "cwd", "headers", "disabled", "oauth", "auth", *_URLS}
)
_REFUSED: Final = {
    "envFile": "a file of variables is not read: write them as `env`",
    "headersHelper": "a program that makes headers is not run: write them as `headers`",
}
"""Settings that are refused, with the reason: without them the hub would connect to something else."""


def read_mcp_json(text: str) -> ServersFile:
    """Read a file. Raises `Invalid`, which says what was expected."""
    return of_mcp_json(document_of(text))


def of_mcp_json(document: Any) -> ServersFile:
    """The servers in a file that was parsed as JSON. Raises `Invalid`."""
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
    disabled = tuple(name for name, entry in found.items() if _is_off(entry))
    templates = tuple(_template(name, entry) for name, entry in found.items() if name not in disabled)
    keys = dict.fromkeys(key for template in templates for text in template.texts() for key in keys_of(text))
    secrets = {secret_key(template.name): template for template in templates if template.oauth is not None}
    asked = (_secret(secrets[key]) if key in secrets else _placeholder(key, inputs) for key in keys)
    return ServersFile(templates, tuple(asked), disabled)


def _lists(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of an object that has a list of servers, and that list."""
    for holder in (document, document.get("mcp") if isinstance(document, dict) else None):
        if isinstance(holder, dict):
            for key in _LISTS:
                if isinstance(servers := holder.get(key), dict):
                    yield holder, servers


def _is_off(entry: Mapping[str, Any]) -> bool:
    return entry.get("disabled") is True or entry.get("enabled") is False


def _placeholder(key: str, inputs: Mapping[str, Mapping[str, Any]]) -> Placeholder:
    known = inputs.get(key.removeprefix("input:")) if key.startswith("input:") else None
    if known is None:
        return Placeholder(key)
    password = known.get("password")
    return Placeholder(
        key, str(known.get("description") or "")[:200], hidden=password is not False, secret=password is True
    )


def _secret(template: Template) -> Placeholder:
    """The placeholder for the secret of the OAuth client that the file names: programs keep the secret elsewhere, and
    some clients have none."""
    assert template.oauth is not None
    return Placeholder(
        secret_key(template.name),
        f"The secret of the client {template.oauth.client_id[:100]} for {template.name}",
        secret=True,
        needed=template.oauth.by_client,
    )


def _template(name: str, entry: Mapping[str, Any]) -> Template:
    url = next((entry[key] for key in _URLS if entry.get(key)), None)
    command = entry.get("command")
    if isinstance(command, dict):  # as Zed once wrote it
        entry = {**entry, **command, "command": command.get("path")}
        command = entry["command"]
    ignored = tuple(key for key in entry if key not in _KEPT and key not in ("path", "enabled"))
    try:
        if why := _why_not(entry, url):
            raise Invalid(f"{why}.")
        oauth, left = oauth_of(entry)
        if oauth is not None and url is None:
            raise Invalid("only a server with a url is authorized by OAuth.")
        if url is None:
            words, environment, directory = _command(entry)
            return Template(name, words=words, environment=environment, directory=directory, ignored=ignored)
        if not isinstance(url, str):
            raise Invalid("its url is no text.")
        url = address_of(url, sse=_kind(entry) == "sse")
        if oauth is not None and oauth.client_id and not oauth.secret:
            oauth = replace(oauth, secret=f"${{{secret_key(name)}}}")
        return Template(name, url=url, headers=_texts(entry, "headers"), oauth=oauth, ignored=(*ignored, *left))
    except Invalid as error:
        raise Invalid(f"{name}: {error.message}") from None


def _why_not(entry: Mapping[str, Any], url: Any) -> str:
    """Why the hub cannot keep the server as the file describes it, as text for people; empty if it can."""
    for setting, why in _REFUSED.items():
        if entry.get(setting):
            return why
    kind, command = _kind(entry), entry.get("command")
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"expected the type `stdio` or `http`, not {str(kind)[:40]!r}"
    if (command is None) == (url is None):
        return "expected either `command` or `url`"
    if _KINDS[kind] and (_KINDS[kind] == "stdio") != (command is not None):
        return f"its type is {kind}, but it has no {'command' if _KINDS[kind] == 'stdio' else 'url'}"
    return ""


def _kind(entry: Mapping[str, Any]) -> Any:
    return entry.get("type") or entry.get("transport") or ""


def _command(entry: Mapping[str, Any]) -> tuple[tuple[Word, ...], dict[str, str], str]:
    args, directory = entry.get("args") or [], entry.get("cwd") or ""
    if not isinstance(entry["command"], str) or not entry["command"].strip():
        raise Invalid("its command is no text.")
    if not isinstance(args, list) or not all(isinstance(word, str | int | float) for word in args):
        raise Invalid("its args are no list of texts.")
    if not isinstance(directory, str):
        raise Invalid("its cwd is no text.")
    return (Word(entry["command"]), *(Word(_text(word)) for word in args)), _texts(entry, "env"), directory


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    found = entry.get(key) or {}
    if not isinstance(found, dict):
        raise Invalid(f"its `{key}` is no object of texts.")
    if odd := next((name for name, value in found.items() if not isinstance(value, str | int | float)), ""):
        raise Invalid(f"in its `{key}`, {odd[:40]} is no text.")
    return {name: _text(value) for name, value in found.items()}


def _text(value: str | float) -> str:
    """The value as text, as programs in JavaScript write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
