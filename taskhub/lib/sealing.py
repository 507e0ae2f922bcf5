"""What others hold for us: strings handed to clients, and secrets that lie in the database.

`Sealer` makes opaque, authenticated strings (cursors, `requestState`): the holder can neither
read meaning into them nor change them. HMAC-SHA256 over the purpose and the payload; the payload
itself is not secret, unless it is `wrap`ped. `Vault` encrypts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Any

import orjson
from cryptography.fernet import Fernet, InvalidToken


class Unsealed(ValueError):
    """Not a string this key sealed for this purpose, or one past its time."""


class Sealer:
    """Seals JSON values under one key.

    `seal` takes a purpose, so that a cursor can never be replayed as a `requestState`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"taskhub.seal.v1" + key).digest()
        self._vault = Vault(key)

    def seal(self, purpose: str, value: Any, *, seconds: int) -> str:
        """A URL-safe string that `open` accepts for `seconds` from now."""
        body = orjson.dumps([int(time.time()) + seconds, value])
        return base64.urlsafe_b64encode(self._mac(purpose, body) + body).decode().rstrip("=")

    def open(self, purpose: str, text: str) -> Any:
        """The sealed value; raises `Unsealed` for anything altered, foreign or expired."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise Unsealed("malformed") from None
        mac, body = raw[:32], raw[32:]
        if not hmac.compare_digest(mac, self._mac(purpose, body)):
            raise Unsealed("not sealed by this server")
        # Several base64 spellings can decode to the same bytes; only ours is accepted.
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
            raise Unsealed("malformed")
        until, value = orjson.loads(body)
        if time.time() > until:
            raise Unsealed("expired")
        return value

    def wrap(self, purpose: str, value: Any, *, seconds: int) -> str:
        """As `seal`, and the holder cannot read it either."""
        return self._vault.lock(self.seal(purpose, value, seconds=seconds)).decode()

    def unwrap(self, purpose: str, text: str) -> Any:
        """As `open`, for what `wrap` made."""
        try:
            strict = base64.b64encode(base64.b64decode(text, altchars=b"-_", validate=True), altchars=b"-_").decode()
        except (binascii.Error, ValueError):
            raise Unsealed("malformed") from None
        if strict != text:  # Fernet itself reads several spellings of the same bytes
            raise Unsealed("malformed")
        try:
            sealed = self._vault.unlock(text.encode())
        except Unsealed:
            raise Unsealed("not sealed by this server") from None
        return self.open(purpose, sealed)

    def _mac(self, purpose: str, body: bytes) -> bytes:
        return hmac.new(self._key, purpose.encode() + b"\0" + body, hashlib.sha256).digest()


class Vault:
    """Encrypts short secrets under one key (Fernet: AES-128-CBC with HMAC-SHA256)."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"taskhub.vault.v1" + key).digest()))

    def lock(self, secret: str) -> bytes:
        """What may lie in the database."""
        return self._fernet.encrypt(secret.encode())

    def unlock(self, locked: bytes) -> str:
        """The secret. Raises `Unsealed` when it was locked with another key, or altered."""
        try:
            return self._fernet.decrypt(locked).decode()
        except InvalidToken:
            raise Unsealed("locked with another key") from None
