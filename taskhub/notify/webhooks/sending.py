"""Sends messages to webhooks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import aiohttp
from yarl import URL

from taskhub.lib.later import seconds_of
from taskhub.lib.tls import trusted
from taskhub.notify.webhooks.signatures import signatures

SECONDS: Final = 15.0
"""Seconds in which a receiver has to answer."""
MAX_ANSWER: Final = 4_096
"""Bytes of an answer that are read."""
MAX_LATER: Final = 86_400.0
"""The longest pause, in seconds. A `Retry-After` that asks for more counts as this."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a webhook, with the address. `number` is the number of this attempt to send it, from 1."""

    id: str
    body: str
    number: int
    url: str = field(repr=False)
    secrets: Sequence[str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of sending a message. `problem` says in words why the message was not taken; empty if it was."""

    status: int | None = None
    text: str = ""
    problem: str = ""
    later: float | None = None

    @property
    def gone(self) -> bool:
        """Whether the receiver wants no more messages."""
        return self.status == HTTPStatus.GONE


class Sender:
    """Sends messages, each over a connection of its own. For one event loop."""

    def __init__(self, agent: str) -> None:
        """`agent` is the value of the header `User-Agent`."""
        self._agent = agent
        self._http: aiohttp.ClientSession | None = None

    async def send(self, message: Message) -> Answer:
        """Send a message. Redirects are not followed. An error of the receiver or of the connection raises nothing: it
        is in the answer."""
        now = int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": self._agent,
            "webhook-id": message.id,
            "webhook-timestamp": str(now),
            "webhook-signature": signatures(message.secrets, message.id, now, message.body),
            "taskhub-attempt": str(message.number),
        }
        try:
            async with asyncio.timeout(SECONDS):
                return await self._asked(message, headers)
        except TimeoutError:
            return Answer(problem=f"No answer within {SECONDS:g} s")
        except aiohttp.ClientConnectorCertificateError:
            return Answer(problem="The certificate of the receiver is not trusted")
        except aiohttp.ClientConnectorError as error:
            return Answer(problem=f"Cannot connect: {os.strerror(error.errno) if error.errno else error.strerror}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(problem=f"The request failed ({type(error).__name__})")

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.close()

    async def _asked(self, message: Message, headers: dict[str, str]) -> Answer:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted(), force_close=True, limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        async with self._http.post(
            URL(message.url, encoded=True),
            data=message.body.encode(),
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            status = response.status
            text = (await _first(response)).decode("utf-8", "replace")
            if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                return Answer(status, text)
            why = " (redirects are not followed)" if status < HTTPStatus.BAD_REQUEST else ""
            later = seconds_of(response.headers.get("retry-after", ""), MAX_LATER)
            return Answer(status, text, f"The receiver answered {status}{why}", later)


async def _first(response: aiohttp.ClientResponse) -> bytes:
    """The first bytes of an answer, at most `MAX_ANSWER`."""
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) >= MAX_ANSWER:
            break
    return bytes(found[:MAX_ANSWER])
