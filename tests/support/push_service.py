"""A push service on this machine: browsers that subscribed, and what came for them. It checks who sends by the token of
VAPID (RFC 8292), and decrypts for the browser by the published library, `http_ece` (RFC 8188 and 8291)."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import http_ece  # type: ignore[import-untyped]  # it has no types
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MOST_SECONDS = 86_400
"""How long a token may be good, by the standard."""


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Subscribed:
    """A browser: its keys, what came for it, and what the service answers of it."""

    path: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    secret: bytes = field(default_factory=lambda: os.urandom(16))
    status: int = 201
    came: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def p256dh(self) -> str:
        return text(self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    @property
    def auth(self) -> str:
        return text(self.secret)


class PushService:
    """`wants`: the public key that must have signed, as browsers name it when they subscribe."""

    def __init__(self, wants: str, port: int = 0) -> None:
        service = self
        self.wants = wants
        self.browsers: dict[str, Subscribed] = {}
        self.problems: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = service.took(self.path, headers, body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def subscribe(self) -> Subscribed:
        """Another browser."""
        made = Subscribed(f"/push/{len(self.browsers)}-{os.urandom(8).hex()}")
        self.browsers[made.path] = made
        return made

    def endpoint(self, browser: Subscribed) -> str:
        return f"http://{self.host}{browser.path}"

    def took(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """What a real service does with a request; the message is the browser's if it is taken."""
        try:
            self._check_sender(headers["authorization"])
            if headers["content-encoding"] != "aes128gcm" or int(headers["ttl"]) < 0:
                raise ValueError("no message of web push")
            browser = self.browsers[path]
            if browser.status == 201:
                told = http_ece.decrypt(body, private_key=browser.key, auth_secret=browser.secret, version="aes128gcm")
                browser.came.append(json.loads(told))
                browser.headers.append(headers)
            return browser.status
        except Exception as error:  # noqa: BLE001 - told by the test
            self.problems.append(repr(error))
            return 400

    def _check_sender(self, header: str) -> None:
        scheme, _, rest = header.partition(" ")
        parts = dict(part.split("=", 1) for part in rest.split(","))
        if scheme != "vapid" or parts["k"] != self.wants:
            raise ValueError("signed by somebody else")
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw(parts["k"]))
        claims = jwt.decode(parts["t"], key, algorithms=["ES256"], audience=f"http://{self.host}")
        if claims["exp"] > time.time() + MOST_SECONDS:
            raise ValueError("good for too long")
        if not str(claims["sub"]).startswith(("mailto:", "https:")):
            raise ValueError("nobody to write to")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
