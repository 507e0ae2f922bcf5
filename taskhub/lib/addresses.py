r"""Web addresses from foreign text, parsed as a browser parses them.

Python's `urlsplit` follows RFC 3986, browsers follow the URL standard of WHATWG, and where the two differ people
can be misled: the host of `https://evil.example\@github.com/` is github.com for `urlsplit`, but evil.example for a
browser. So addresses are parsed with Ada, a parser of the URL standard; an address that parsers read differently is
refused; and the address that is opened is rebuilt from the parsed parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import ada_url

from taskhub.lib.signs import code_point, invisible

MAX_ADDRESS: Final = 8_192
"""Longest address that is read, in characters."""

_WEB: Final = re.compile(r"https?:", re.IGNORECASE)
_START: Final = re.compile(r"https?://(?P<authority>[^/?#]+)", re.IGNORECASE)


class BadAddress(ValueError):
    """An address that is refused. The message says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A parsed http or https address. `href` is the whole address, rebuilt from its parts in ASCII; `host` the host in
    ASCII, with the port unless it is the scheme's default; `name` the host without the port; `spelling` the host in
    Unicode, empty if that is the same as `name`.
    """

    href: str
    scheme: str
    host: str
    name: str
    spelling: str


def web_address(text: str) -> WebAddress:
    """The address, parsed. Raises `BadAddress` for one that is misleading, not http or https, or cannot be parsed."""
    why = deceit(text)
    if why:
        raise BadAddress(why)
    if not _WEB.match(text):
        raise BadAddress("it is no http or https address")
    parsed = ada_url.URL(text)
    shown = ada_url.idna.decode(parsed.hostname)
    spelling = shown if isinstance(shown, str) else shown.decode()
    return WebAddress(
        href=parsed.href,
        scheme=parsed.protocol.removesuffix(":"),
        host=parsed.host,
        name=parsed.hostname,
        spelling="" if spelling == parsed.hostname else spelling,
    )


def deceit(text: str) -> str:
    """The reason why an address (of any scheme) is misleading or cannot be parsed, as the end of a sentence; an empty
    string for a good address."""
    if len(text) > MAX_ADDRESS:
        return f"it is longer than {MAX_ADDRESS:,} characters"
    hidden = invisible(text)
    if hidden:
        return f"it holds the invisible character {code_point(hidden[0][1])}"
    if any(sign.isspace() for sign in text):
        return "it holds a blank or a line break"
    if "\\" in text:
        return "it holds a backslash, which hides where it leads"
    if not _WEB.match(text):
        return "" if re.match(r"[a-z][a-z0-9+.-]*:.", text, re.IGNORECASE) else "it cannot be read as an address"
    start = _START.match(text)
    if start is None:
        return "it cannot be read as an address"
    if "@" in start["authority"]:
        return "it names a user before the host, which hides where it leads"
    try:
        ada_url.URL(text)
    except ValueError:
        return "it cannot be read as an address"
    return ""


def host_of(text: str) -> str:
    """The host of a web address in ASCII, with the port unless it is the scheme's default; an empty string for any
    other text."""
    try:
        return web_address(text).host
    except BadAddress:
        return ""
