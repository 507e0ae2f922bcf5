"""An outside issuer: a small HTTP server with metadata and keys, and what it needs to sign."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

PATIENCE = 20.0
"""Nobody waits at the gate longer than so many seconds."""

_RSA = itertools.cycle(rsa.generate_private_key(public_exponent=65_537, key_size=2_048) for _ in range(12))
"""The same dozen keys in turn: making one takes long, and no test has so many."""


class Issuer:
    """`http://127.0.0.1:port`; `asked` counts how often its keys were asked for, `refused` how often it
    was `away`, `cut` how often nobody listened to the end. `answers` is what it says instead of its own
    documents, by path. While `gate` is not set, whoever asks for the keys waits."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked = self.refused = self.cut = 0
        self.away = False
        self.claimed: str | None = None
        self.answers: dict[str, Any] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.add("one")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.refused += issuer.away
                found = issuer.document(self.path)
                body = json.dumps({} if found is None else found).encode()
                self.send_response(503 if issuer.away else 404 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    issuer.cut += 1

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def add(self, kid: str, *, elliptic: bool = False) -> None:
        """One more key."""
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1()) if elliptic else next(_RSA)

    def document(self, path: str) -> Any:
        """What it answers."""
        if path == "/keys":
            self.asked += 1
            self.gate.wait(PATIENCE)
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.claimed or self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [self.public(kid) for kid in self.keys]} if path == "/keys" else None

    def publish(self, *keys: Any) -> None:
        """These and no others from now on."""
        self.answers["/keys"] = {"keys": list(keys)}

    def public(self, kid: str, /, **changes: Any) -> dict[str, Any]:
        """A key as it is published; a change of `None` leaves that out."""
        key = self.keys[kid]
        made = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        alg = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        told = {**made.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", "alg": alg, **changes}
        return {name: value for name, value in told.items() if value is not None}

    def token(
        self,
        audience: Any,
        *,
        kid: str | None = "one",
        by: str | None = None,
        algorithm: str = "RS256",
        kind: str | None = "JWT",
        **claims: Any,
    ) -> str:
        """A token that names the key `kid` and is signed with the key `by`, the same unless told; it calls
        itself a `kind`. A claim of `None` is left out."""
        told = {
            "iss": self.url,
            "sub": "ada",
            "aud": audience,
            "exp": int(time.time()) + 300,
            "iat": int(time.time()),
            "scope": "openid tasks:call tasks:read",
            "client_id": "deployer",
            **claims,
        }
        found = {name: value for name, value in told.items() if value is not None}
        key = self.keys[by or kid or "one"]
        return jwt.encode(found, key, algorithm=algorithm, headers={"typ": kind, **({"kid": kid} if kid else {})})

    def close(self) -> None:
        """End it."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def running() -> Iterator[Issuer]:
    """An issuer for a while."""
    issuer = Issuer()
    try:
        yield issuer
    finally:
        issuer.close()
