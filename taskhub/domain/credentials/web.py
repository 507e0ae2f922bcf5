"""Requests to authorization servers, whose addresses strangers may have chosen.

A host that an admin gave may be anywhere; any other address has to be https and lead only to public IP addresses. The
host's name is resolved once, and the connection is made to an IP address that was checked. Redirects are not followed;
times and sizes are bounded.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from django.conf import settings

from taskhub.domain.credentials.records import Unanswered
from taskhub.domain.oauth.documents import is_loopback
from taskhub.lib.addresses import BadAddress, host_of, web_address
from taskhub.lib.later import seconds_of
from taskhub.lib.signs import spelled
from taskhub.lib.tls import trusted

MAX_DOCUMENT: Final = 65_536
"""The most bytes of an answer of an authorization server."""
SECONDS: Final = 10.0
"""Seconds in which an authorization server has to answer."""
MAX_PLACES: Final = 3
"""The most addresses of a host that are tried."""
MAX_LATER: Final = 600.0
"""The most seconds that the hub waits because of a `Retry-After` of an authorization server."""
MAX_SHOWN: Final = 200


def hosts_given(server_url: str, issuer: str) -> frozenset[str]:
    """The hosts that an admin named: that of the server, and that of the issuer."""
    return frozenset(filter(None, (host_of(server_url), host_of(issuer))))


class Unfit(Exception):
    """Nothing is sent to the address. The message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request. `body` is the JSON object in it; empty if the answer is no JSON object."""

    status: int
    body: dict[str, Any]
    challenge: str = ""
    """The header WWW-Authenticate."""
    later: float | None = None
    """The seconds after which the authorization server wants to be asked again, at most `MAX_LATER`; `None` if it does
    not say."""


def checked(url: str) -> str:
    """The address in the form in which it is requested. Raises `Unfit` for an address that is never requested, whoever
    named it. Whether its host is public is checked at each request."""
    try:
        address = web_address(url)
    except BadAddress as error:
        raise Unfit(f"the address {_shown(url)} is not asked: {error}") from None
    local = is_loopback(address.name)
    if local and not settings.TASKHUB_OAUTH_LOCAL_SERVERS:
        raise Unfit(
            f"{address.host} is this machine, where no authorization server is asked"
            " (TASKHUB_OAUTH_LOCAL_SERVERS=True allows it)"
        )
    if address.scheme != "https" and not local:
        raise Unfit(f"{address.host} is not asked without https")
    if "#" in url:
        raise Unfit(f"the address {_shown(url)} has a fragment")
    return address.href


def get(url: str, given: Collection[str] = ()) -> Answer:
    """Fetch a JSON document. Raises `Unfit` or `Unanswered`."""
    return _asked("GET", url, given, headers={"Accept": "application/json"})


def post(
    url: str,
    given: Collection[str] = (),
    *,
    form: Mapping[str, str] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a form, or `body` as JSON. Raises `Unfit` or `Unanswered`."""
    sent = {"Accept": "application/json", **(headers or {})}
    return _asked("POST", url, given, headers=sent, form=form, body=body)


def _asked(
    method: str,
    url: str,
    given: Collection[str],
    *,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None = None,
    body: Any = None,
) -> Answer:
    href = httpx2.URL(checked(url))
    port = href.port or (443 if href.scheme == "https" else 80)
    places = _places(href.host, port, private=is_loopback(href.host) or host_of(url) in given)
    deadline = time.monotonic() + SECONDS
    sent = {**headers, "Host": href.netloc.decode(), "Accept-Encoding": "identity"}
    with httpx2.Client(transport=httpx2.HTTPTransport(verify=trusted()), timeout=SECONDS / 2) as http:
        for place in places:
            request = http.build_request(
                method,
                href.copy_with(host=place),
                headers=sent,
                data=None if form is None else dict(form),
                json=body,
                extensions={"sni_hostname": href.host},
            )
            try:
                response = http.send(request, stream=True, follow_redirects=False)
                try:
                    found = _object(_read(response, href.host, deadline))
                    later = seconds_of(response.headers.get("retry-after", ""), MAX_LATER)
                    return Answer(response.status_code, found, response.headers.get("www-authenticate", ""), later)
                finally:
                    response.close()
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # nothing was sent: perhaps the host listens at another of its addresses
            except httpx2.HTTPError as error:
                raise Unanswered(f"{href.host} gave no answer ({type(error).__name__})") from None
    raise Unanswered(f"{href.host} cannot be reached")


def _places(host: str, port: int, *, private: bool) -> list[str]:
    """The host's IP addresses, at most `MAX_PLACES`. Raises `Unfit` if any of its addresses is not public, unless
    `private` is true; `Unanswered` if the name cannot be resolved."""
    try:
        found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)]
    except OSError:
        raise Unanswered(f"the name {host} cannot be resolved") from None
    if not private:
        for place in found:
            if not is_public(place):
                raise Unfit(f"{host} is not asked: it leads to {place}, which is no public address")
    return list(dict.fromkeys(found))[:MAX_PLACES]


def is_public(place: str) -> bool:
    """Whether an IP address is in a public network. An IPv6 address that stands for an IPv4 address is judged by the
    IPv4 address."""
    address = ipaddress.ip_address(place)
    if isinstance(address, ipaddress.IPv6Address):
        if address.teredo is not None:
            return all(part.is_global for part in address.teredo)
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
    return address.is_global and not address.is_multicast


_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def _read(response: httpx2.Response, host: str, deadline: float) -> bytes:
    found = bytearray()
    for part in response.iter_raw():
        found += part
        if len(found) > MAX_DOCUMENT:
            raise Unanswered(f"the answer of {host} is larger than {MAX_DOCUMENT:,} bytes")
        if time.monotonic() > deadline:
            raise Unanswered(f"{host} takes longer than {SECONDS:g} s to answer")
    return bytes(found)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(text: str) -> str:
    text = spelled(text)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
