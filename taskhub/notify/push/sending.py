"""Hands messages to push services."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography.hazmat.primitives.asymmetric import ec
from yarl import URL

from taskhub.lib.later import seconds_of
from taskhub.lib.tls import trusted

SECONDS: Final = 15.0
"""Seconds in which a push service has to answer."""
MAX_ANSWER: Final = 4_096
"""Bytes of an answer that are read."""
MAX_LATER: Final = 86_400.0
"""The longest pause, in seconds. A `Retry-After` that asks for more counts as this."""
KEPT_SECONDS: Final = 86_400
"""For how many seconds a push service keeps a message for a browser that is not running."""
TOKEN_SECONDS: Final = 3_600
"""For how many seconds a push service can use the token that says who sends."""
MAX_TEXT: Final = 3_000
"""The most bytes of a message, before it is encrypted. Push services accept 4,096 bytes of the encrypted one."""


@dataclass(frozen=True, slots=True)
class Push:
    """A message for one browser. `body` is the text, which is encrypted with the browser's keys (`p256dh`, `auth`).
    `urgent`: whether the push service may not hold the message back to save a battery."""

    body: bytes
    urgent: bool
    endpoint: str = field(repr=False)
    p256dh: str = field(repr=False)
    auth: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of sending a message. `problem` says in words why the message was not taken; empty if it was. `gone`:
    the push service does not know the browser any more."""

    status: int | None = None
    text: str = ""
    problem: str = ""
    gone: bool = False
    later: float | None = None


class NotPublic(OSError):
    """The name of a push service has an address in a network that is not public."""


class _Resolver(AbstractResolver):
    """Finds the addresses of a host, and refuses the host if one of them may not be connected to. The connection is
    then made to the addresses that were checked."""

    def __init__(self, may: Callable[[str, int, str], bool]) -> None:
        self._may = may
        self._names = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of the host. Raises `NotPublic`."""
        found = await self._names.resolve(host, port, family)
        for one in found:
            if not self._may(host, port, one["host"]):
                raise NotPublic(f"{host} leads to {one['host']}, which is no public address")
        return found

    async def close(self) -> None:
        """Does nothing, because nothing is open."""


class Sender:
    """Sends messages, each over a connection of its own. For one event loop."""

    def __init__(self, agent: str, contact: str, key: ec.EllipticCurvePrivateKey, may: Callable[[str, int, str], bool]):
        """`agent` is the value of the header `User-Agent`. `contact` is an https or mailto address of whoever runs the
        hub. `key` is the hub's key. `may` gets a host, its port and one of its addresses, and returns whether to
        connect to it."""
        self._agent, self._contact, self._key, self._may = agent, contact, key, may
        self._http: aiohttp.ClientSession | None = None

    async def send(self, push: Push) -> Answer:
        """Send a message. Redirects are not followed. An error of the push service or of the connection raises nothing:
        it is in the answer."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._asked(push)
        except TimeoutError:
            return Answer(problem=f"No answer within {SECONDS:g} s")
        except aiohttp.ClientConnectorCertificateError:
            return Answer(problem="The certificate of the push service is not trusted")
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, NotPublic):
                return Answer(problem=f"Not asked: {error.os_error}")
            return Answer(problem=f"Cannot connect: {os.strerror(error.errno) if error.errno else error.strerror}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(problem=f"The request failed ({type(error).__name__})")

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.close()

    async def _asked(self, push: Push) -> Answer:
        url = URL(push.endpoint, encoded=True)
        host, port = url.host or "", url.port or 443
        if _is_literal(host) and not self._may(host, port, host):  # `_Resolver` never sees it
            return Answer(problem=f"Not asked: {host} is no public address")
        # Imported here, because the extra may be missing; then this is never called.
        from py_vapid import Vapid02
        from pywebpush import WebPusher

        keys = {"p256dh": push.p256dh, "auth": push.auth}
        sealed = WebPusher({"endpoint": push.endpoint, "keys": keys}).encode(push.body)["body"]
        claims = {"aud": str(url.origin()), "sub": self._contact, "exp": int(time.time()) + TOKEN_SECONDS}
        headers = {
            **Vapid02(self._key).sign(claims),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(KEPT_SECONDS),
            "urgency": "high" if push.urgent else "normal",
            "user-agent": self._agent,
        }
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=trusted(), force_close=True, limit=0, resolver=_Resolver(self._may), use_dns_cache=False
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        async with self._http.post(
            url, data=sealed, headers=headers, allow_redirects=False, timeout=aiohttp.ClientTimeout(total=None)
        ) as response:
            status = response.status
            text = (await response.content.read(MAX_ANSWER)).decode("utf-8", "replace")
            if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                return Answer(status, text)
            gone = status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
            later = seconds_of(response.headers.get("retry-after", ""), MAX_LATER)
            return Answer(status, text, f"The push service answered {status}", gone, later)


def _is_literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
