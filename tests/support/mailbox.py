"""An SMTP server on this machine, which keeps what it is given."""

from __future__ import annotations

import asyncio
import email
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd import smtp
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session


@dataclass(frozen=True)
class Received:
    """A mail that came: to whom, and what."""

    to: tuple[str, ...]
    sender: str
    raw: bytes
    encrypted: bool
    user: str

    @property
    def message(self) -> EmailMessage:
        found = email.message_from_bytes(self.raw, policy=default)
        assert isinstance(found, EmailMessage)
        return found

    def body(self, kind: str) -> str:
        part = self.message.get_body((kind,))
        assert part is not None
        return str(part.get_content()).replace("\r\n", "\n")

    @property
    def text(self) -> str:
        return self.body("plain")

    @property
    def html(self) -> str:
        return self.body("html")

    def header(self, name: str) -> str:
        return str(self.message[name])


class Mailbox:
    """Takes every mail, or answers as `answers` says: with an SMTP answer such as `451 later`. With a `certificate`, it
    offers STARTTLS; with `users`, it asks for one of these names and passwords."""

    def __init__(
        self, port: int = 0, *, certificate: ssl.SSLContext | None = None, users: dict[str, str] | None = None
    ) -> None:
        self.received: list[Received] = []
        self.answers: Callable[[Received], str | None] = lambda mail: None
        self.recipient: Callable[[str], str | None] = lambda address: None
        mailbox = self

        class Handler:
            async def handle_RCPT(  # noqa: N802 - as aiosmtpd calls it
                self, server: smtp.SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
            ) -> str:
                if (refusal := mailbox.recipient(address)) is not None:
                    return refusal
                envelope.rcpt_tos.append(address)
                return "250 OK"

            async def handle_DATA(  # noqa: N802
                self, server: smtp.SMTP, session: Session, envelope: Envelope
            ) -> str:
                assert isinstance(envelope.content, bytes)
                user = session.auth_data.login.decode() if session.auth_data else ""
                mail = Received(
                    tuple(envelope.rcpt_tos), str(envelope.mail_from), envelope.content, session.ssl is not None, user
                )
                answer = await asyncio.get_running_loop().run_in_executor(None, mailbox.answers, mail)
                if answer is None or answer.startswith("250"):
                    mailbox.received.append(mail)
                return answer or "250 taken"

        def known(server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
            fits = (
                isinstance(given, LoginPassword) and (users or {}).get(given.login.decode()) == given.password.decode()
            )
            return AuthResult(success=fits, handled=False, auth_data=given if fits else None)

        options: dict[str, Any] = {"tls_context": certificate, "require_starttls": certificate is not None}
        if users is not None:
            options |= {"authenticator": known, "auth_required": True}
        self._controller = _Controller(Handler(), hostname="127.0.0.1", port=port or free_port(), **options)
        self._controller.start()
        self.port = int(self._controller.port)

    @property
    def url(self) -> str:
        return f"smtp+plain://127.0.0.1:{self.port}"

    def close(self) -> None:
        """End it, with its connections."""
        asyncio.run_coroutine_threadsafe(self._controller.hang_up(), self._controller.loop).result(10)
        self._controller.stop()


class _Controller(Controller):
    def factory(self) -> smtp.SMTP:
        made: smtp.SMTP = super().factory()  # type: ignore[no-untyped-call]
        self.connections: list[smtp.SMTP] = [*getattr(self, "connections", []), made]
        return made

    async def hang_up(self) -> None:
        for one in self.connections:
            for transport in (one.transport, getattr(one, "_original_transport", None)):
                if isinstance(transport, asyncio.WriteTransport):
                    transport.abort()
        await asyncio.sleep(0.01)  # their ends are told in the next rounds of the loop


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
