r"""Web addresses from foreign text, parsed as a browser parses them.

Python's `urlsplit` follows RFC 3986, browsers follow the URL standard of WHATWG, and where the two differ people
can be misled: `https://evil.example\@github.com/` is at github.com for the one, and leads to evil.example in the
other. So addresses are parsed by the parser of browsers (Ada), those that other parsers read differently are
refused, and the address that is opened is built from the parsed parts.
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
    """The address is not opened; the message says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https address. `href` is built from its parts, in ASCII. `host` is where it leads, in
    ASCII, with the port unless it is the scheme's own; `name` the host without a port, `spelling` the
    same in Unicode where that differs.
    """

    href: str
    scheme: str
    host: str
    name: str
    spelling: str


def web_address(text: str) -> WebAddress:
    """The parsed address, if a person may follow it. Raises `BadAddress`."""
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
    """Why this address, of any scheme, is misleading or cannot be parsed, as the end of a sentence; empty when it is
    neither."""
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
    """The host that a web address leads to, in ASCII and with a port of its own; empty for any other text."""
    try:
        return web_address(text).host
    except BadAddress:
        return ""
