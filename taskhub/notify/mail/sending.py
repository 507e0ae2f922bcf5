"""Hands mails to the SMTP server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.headerregistry import Address, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from taskhub.lib.tls import trusted

SECONDS: Final = 20.0
"""Seconds in which the server has to take a mail, from the connection on."""
_LOWEST: Final = 200
"""The lowest code that an answer in SMTP has."""
MAX_ANSWER: Final = 4_096
"""How many characters of an answer are kept."""


class _Link(UnstructuredHeader):
    """A header that stays on one line, however long it is. If it were folded, a long address would be encoded, and
    would be no link any more."""

    def fold(self, *, policy: Policy) -> str:
        """The header as one line, with its line end."""
        return f"List-Unsubscribe: {self}{policy.linesep}"


_HEADERS: Final = HeaderRegistry()
_HEADERS.map_to_type("list-unsubscribe", _Link)  # type: ignore[arg-type]  # it mixes `BaseHeader` in
_POLICY: Final = SMTP.clone(header_factory=_HEADERS)


@dataclass(frozen=True, slots=True)
class Server:
    """The SMTP server. `security`: `tls` for TLS from the start, `starttls` for TLS before anything is said, empty for
    none."""

    host: str
    port: int
    security: str
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail. `id` becomes its `Message-ID`, and stays the same however often the mail is sent. `stop_url`: the address
    at which one request ends all mails to this person."""

    id: str
    sender: Address
    to: Address
    subject: str
    text: str
    html: str
    stop_url: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of sending a mail. `problem` says in words why the server did not take the mail; empty if it did.
    `status` is `None` if the server did not answer."""

    status: int | None = None
    text: str = ""
    problem: str = ""


class Sender:
    """Sends mails, each over a connection of its own. For one event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def send(self, mail: Mail) -> Answer:
        """Send a mail. An error of the server or of the connection raises nothing: it is in the answer. If the time
        ends just before the server's last word, the server may have taken the mail nevertheless."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._handed(mail)
        except (TimeoutError, aiosmtplib.SMTPTimeoutError):
            return Answer(problem=f"No answer within {SECONDS:g} s")
        except aiosmtplib.SMTPRecipientsRefused as error:
            first = error.recipients[0]
            return Answer(first.code, _kept(first.message), f"The server refused the address ({first.code})")
        except aiosmtplib.SMTPAuthenticationError as error:
            return Answer(None, _kept(error.message), f"The server refused user name and password ({error.code})")
        except aiosmtplib.SMTPConnectResponseError as error:
            return Answer(None, _kept(error.message), f"The server refused the connection ({error.code})")
        except aiosmtplib.SMTPResponseException as error:
            if error.code < _LOWEST:
                return Answer(None, _kept(error.message), "This is no SMTP server")
            return Answer(error.code, _kept(error.message), f"The server refused the mail ({error.code})")
        except aiosmtplib.SMTPConnectError as error:
            cause = error.__cause__
            said = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else "no connection"
            return Answer(problem=f"Cannot connect: {said}")
        except aiosmtplib.SMTPNotSupported as error:
            return Answer(problem=f"The server lacks what is asked of it: {_kept(str(error))[:200]}")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return Answer(problem=f"Sending failed ({type(error).__name__})")

    async def _handed(self, mail: Mail) -> Answer:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=mail.sender.domain,  # else the machine's name is looked up, which may take seconds
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=trusted() if server.security else None,
            timeout=SECONDS,
        )
        transport: asyncio.BaseTransport | None = None
        try:
            await client.connect()
            transport = client.transport
            if server.user:
                await client.login(server.user, server.password)
            _, said = await client.sendmail(mail.sender.addr_spec, [mail.to.addr_spec], composed(mail))
            with contextlib.suppress(aiosmtplib.SMTPException, OSError):
                await client.quit()
            return Answer(250, _kept(said))
        finally:
            client.close()
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()  # an encrypted connection would wait for the server to close it too


def composed(mail: Mail) -> bytes:
    """The mail as bytes: text and HTML, with its headers. Raises `ValueError` for a header with a line break."""
    message = EmailMessage(policy=_POLICY)
    message["From"] = mail.sender
    message["To"] = mail.to
    message["Subject"] = mail.subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{mail.id}@{mail.sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    if mail.stop_url:
        message["List-Unsubscribe"] = f"<{mail.stop_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(mail.text, cte="quoted-printable")
    message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
    return message.as_bytes()


def _kept(answer: str) -> str:
    return " ".join(answer.split())[:MAX_ANSWER]
