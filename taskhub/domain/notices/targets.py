"""Services that Apprise reaches: an administrator names them (`TASKHUB_APPRISE_URLS`), and a person types the name of a
service with their own part of its address, such as `ntfy:my-topic`.

Hosts and the hub's tokens stand only in the setting, so that nobody but administrators says where requests go. A
person's part may be a secret, such as a topic: it is stored encrypted, and pages show only how it begins.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

from django.conf import settings

from taskhub.core.errors import Invalid
from taskhub.lib import apprises
from taskhub.lib.signing import InvalidToken, Vault

PLACE: Final = "{to}"
"""Where an address in the setting has the person's part."""
MAX_PART: Final = 95
"""The most characters of a person's part."""
CUT: Final = "…"
_PART: Final = re.compile(r"[A-Za-z0-9@#!+_=-][A-Za-z0-9@#!+_=.:~-]*(/[A-Za-z0-9_-]+)?")
_SHOWN: Final = 2


def names() -> list[str]:
    """The services that this hub reaches."""
    return list(settings.TASKHUB_APPRISE_URLS)


def check(address: str) -> None:
    """Raises `Invalid` if the address is not an address of one of this hub's services."""
    name, colon, part = address.partition(":")
    if not colon or name not in settings.TASKHUB_APPRISE_URLS:
        known = ", ".join(f"{one}:…" for one in names())
        raise Invalid(f"Begin with the name of a service and a colon: {known}", field="address")
    if len(part) > MAX_PART or not _PART.fullmatch(part) or ".." in part:
        raise Invalid(
            f"Give your own part of the address, such as {name}:abc123: at most {MAX_PART} letters, digits and"
            " @ # ! + _ = . : ~ -",
            field="address",
        )
    url = _filled(name, part)
    service = None if url is None else apprises.service_of(url)
    if service is None or len(service) != 1:
        raise Invalid(f"This is no address of {name}.", field="address")


def sealed(address: str) -> str:
    """The address as it is stored: the name of the service, a colon, and the person's part, encrypted."""
    name, _, part = address.partition(":")
    return f"{name}:{_vault().encrypt(part).decode()}"


def plain(stored: str) -> str:
    """A stored address in plain text: without the person's part if that was encrypted under another `SECRET_KEY`; empty
    if no address is stored."""
    name, colon, part = stored.partition(":")
    try:
        return f"{name}:{_vault().decrypt(part.encode())}" if colon else ""
    except InvalidToken:
        return f"{name}:"


def shown(stored: str) -> str:
    """A stored address as pages show it; empty if no address is stored."""
    name, colon, part = plain(stored).partition(":")
    return f"{name}:{part[:_SHOWN] if len(part) > 2 * _SHOWN else ''}{CUT}" if colon else ""


def url_of(stored: str) -> str:
    """The Apprise URL of a stored address; empty if the hub has no service of this name any more, or the address was
    stored under another `SECRET_KEY`."""
    name, _, part = plain(stored).partition(":")
    return (_filled(name, part) or "") if part else ""


def faults() -> dict[str, str]:
    """The services that can reach nobody, each with the reason."""
    return {name: why for name in names() if (why := _fault(name))}


def _fault(name: str) -> str:
    template = settings.TASKHUB_APPRISE_URLS[name]
    scheme = template.partition(":")[0]
    if not apprises.is_known(scheme):
        return f"Apprise knows no {scheme}:// here"
    if _in_host(template) and apprises.has_host(scheme):
        return f"{PLACE} is where the host is, so people would say where requests go"
    return ""


def _filled(name: str, part: str) -> str | None:
    """The URL of a service with the person's part filled in; `None` if the part cannot be filled in, such as because it
    would name a host."""
    template = settings.TASKHUB_APPRISE_URLS.get(name)
    if template is None or _fault(name) or ("/" in part and not _in_host(template)):
        return None
    return str(template.replace(PLACE, _quoted(part, template)))


def _quoted(part: str, template: str) -> str:
    # A slash may stay if the person's part stands where the host is: services without a host have two parts there, such
    # as an id and its token.
    return quote(part, safe="/" if _in_host(template) else "")


def _in_host(template: str) -> bool:
    return PLACE in urlsplit(template).netloc.rpartition("@")[2]


def _vault() -> Vault:
    return Vault(settings.SECRET_KEY.encode())
