"""Finds possible secrets: in the address or command of a server, which pages hide and the database encrypts; and in the
arguments of a call, which the call's short name hides."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

HIDDEN: Final = "•••"
_SECRET: Final = re.compile(r"pass|secret|token|key|auth|credential|bearer|cookie|signature|\bsig\b", re.IGNORECASE)
_UNREADABLE: Final = re.compile(r"^$|[\s'\"\\]")
"""Finds a word that is shown in quotes: an empty one, or one with blanks, quotes or backslashes."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(rf"(?:--env=)?{_ASSIGNMENT.pattern}", re.DOTALL)
_SHORT: Final = 12
"""Characters. A command is shown without the values of its variables, but a message about it loses only values that
have at least this length or whose variable sounds secret: `debug` or `production` are words as well."""
_HEADER: Final = re.compile(r"([A-Za-z0-9_-]+):(?!//)\s*(.+)")


def redacted(transport: str, target: str) -> str:
    """`target` with `HIDDEN` in place of each possible secret; unchanged if it has none.

    In a URL: the user and password, the fragment, and the values of parameters whose name sounds secret. In a command:
    the values of all variables that it sets (`env NAME=value`, `-e NAME=value`, `--env=NAME=value`); the values of
    `NAME=value`, `--name value`, `--name=value` and `Name: value` if the name sounds secret; and the secrets of URLs.
    """
    if transport == "http":
        shown = _redacted_url(target)
    elif transport == "stdio":
        shown = " ".join(shlex.quote(new) if _UNREADABLE.search(new) else new for _, new in _words(target))
    else:
        return target
    return shown if HIDDEN in shown else target


def without_secrets(message: str, transport: str, target: str) -> str:
    """`message` without the secrets of `target`, which it may quote as a whole or in part."""
    shown = redacted(transport, target)
    if shown == target:
        return message
    # Where the message quotes the whole target, shorter secrets are hidden already.
    return without_values(message.replace(target, shown), _secrets(transport, target))


def without_values(message: str, values: Iterable[str]) -> str:
    """`message` with `HIDDEN` in place of these values. Values of fewer than 4 characters stay, because they could be
    part of any word."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= 4:
            message = message.replace(value, HIDDEN)
    return message


def secrets_of(transport: str, target: str) -> frozenset[str]:
    """The secrets in a target, each as a message may quote it."""
    return frozenset() if redacted(transport, target) == target else frozenset(_secrets(transport, target))


def given_secrets(headers: Iterable[tuple[str, str]], environment: Iterable[tuple[str, str]] = ()) -> frozenset[str]:
    """The texts in a server's headers and variables that a message must not repeat. Of headers these are all values,
    without the scheme in `Authorization`. Of variables these are values that are long or whose name sounds secret, long
    lines of values, and the passwords in addresses."""
    found: set[str] = set()
    for name, value in headers:
        credentials = value.partition(" ")[2].strip() if name.lower().endswith("authorization") else ""
        found.add(credentials or value)
    for name, value in environment:
        found |= _secrets_of_word(f"{name}={value}")
        if "\n" in value:  # such as a key in PEM, which a message repeats line by line
            found |= {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORT}
    return frozenset(found - {""})


def masked(name: str, text: str) -> str:
    """The text of the argument `name` without possible secrets: `HIDDEN` if `name` sounds secret; if the text is a
    header whose name sounds secret, that name and `HIDDEN`; otherwise the text as `redacted` shows a command."""
    if _SECRET.search(name):
        return HIDDEN
    if (header := _HEADER.match(text)) and _SECRET.search(header[1]):
        return f"{header[1]}: {HIDDEN}"
    return redacted("stdio", text)


def _redacted_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rsplit("@", 1)
    except ValueError:
        return HIDDEN
    netloc = f"{HIDDEN}@{host[1]}" if len(host) == 2 else host[0]
    query = "&".join(
        f"{quote(name)}={HIDDEN if _SECRET.search(name) else quote(value, safe='/:,')}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    return urlunsplit((parts.scheme, netloc, parts.path, query, HIDDEN if parts.fragment else ""))


def _words(command: str) -> list[tuple[str, str]]:
    """Pairs of each word of a command and the word as shown, which differs if it holds a secret."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: list[tuple[str, str]] = []
    after_env = bool(words) and words[0].rpartition("/")[2] == "env"
    before, hide = "", False
    for place, word in enumerate(words):
        variable = _VARIABLE.fullmatch(word)
        after_env = after_env and (place == 0 or word.startswith("-") or variable is not None)
        if hide:
            shown = HIDDEN
        elif variable and variable[2] and (after_env or before in ("-e", "--env") or word.startswith("--env=")):
            shown = word.removesuffix(variable[2]) + HIDDEN
        else:
            shown = _shown(word)
        found.append((word, shown))
        hide = not hide and word.startswith("-") and "=" not in word and _SECRET.search(word) is not None
        before = word
    return found


def _shown(word: str) -> str:
    name, sign, value = word.partition("=")
    if sign and "://" not in name and _SECRET.search(name):
        return f"{name}={HIDDEN}"
    if (header := _HEADER.fullmatch(word)) and _SECRET.search(header[1]):
        return f"{header[1]}: {HIDDEN}"
    if "://" in word:
        named = sign and "://" not in name
        shown = f"{name}={_redacted_url(value)}" if named else _redacted_url(word)
        return shown if HIDDEN in shown else word
    return word


def _secrets(transport: str, target: str) -> set[str]:
    if transport == "http":
        return _secrets_of_url(target)
    found = set()
    for old, new in _words(target):
        if old != new:
            found |= _secrets_of_word(old)
    return found


def _secrets_of_word(word: str) -> set[str]:
    if header := _HEADER.fullmatch(word):
        return {word, header[2], *header[2].split()}
    name, sign, value = word.partition("=")
    named = bool(sign) and "://" not in name
    parts = _secrets_of_url(value if named else word) if "://" in word else set()
    if variable := _VARIABLE.fullmatch(word):
        spoken = len(variable[2]) >= _SHORT or _SECRET.search(variable[1])
        return parts | ({word, variable[2]} if spoken else {word})
    return parts or ({word, value} if sign else {word})


def _secrets_of_url(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return {url}
    user = parts.netloc.rpartition("@")[0]
    found = {user, *user.split(":", 1)}
    found |= {value for name, value in parse_qsl(parts.query) if _SECRET.search(name)}
    found |= {parts.fragment, *(value for _, value in parse_qsl(parts.fragment))}
    found -= {""}
    return found | {unquote(value) for value in found} | {quote(value, safe="") for value in found}
