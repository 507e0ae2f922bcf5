"""Signs strings that clients carry for us, and encrypts secrets that are stored in the database.

`Signer` makes opaque, authenticated strings (cursors, `requestState`), which their holder cannot change: HMAC-SHA256
over the purpose and the payload. The payload itself is not secret, unless it is encrypted as well. `Vault` encrypts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Any

import orjson
from cryptography import fernet


class InvalidToken(ValueError):
    """The string was not signed with this key for this purpose, or it has expired."""


class Signer:
    """Signs JSON values with one key.

    `sign` takes a purpose, so that a cursor can never be replayed as a `requestState`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"taskhub.sign.v1" + key).digest()
        self._vault = Vault(key)

    def sign(self, purpose: str, value: Any, *, seconds: int) -> str:
        """A URL-safe string that `verify` accepts for `seconds` from now, for the same purpose."""
        body = orjson.dumps([int(time.time()) + seconds, value])
        return base64.urlsafe_b64encode(self._mac(purpose, body) + body).decode().rstrip("=")

    def verify(self, purpose: str, text: str) -> Any:
        """The signed value; raises `InvalidToken` for anything altered, foreign or expired."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise InvalidToken("malformed") from None
        mac, body = raw[:32], raw[32:]
        if not hmac.compare_digest(mac, self._mac(purpose, body)):
            raise InvalidToken("not signed by this server")
        # Several base64 spellings can decode to the same bytes; only ours is accepted.
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
            raise InvalidToken("malformed")
        until, value = orjson.loads(body)
        if time.time() > until:
            raise InvalidToken("expired")
        return value

    def encrypt(self, purpose: str, value: Any, *, seconds: int) -> str:
        """A string that `decrypt` accepts for `seconds` from now; its holder can neither change nor read the value."""
        return self._vault.encrypt(self.sign(purpose, value, seconds=seconds)).decode()

    def decrypt(self, purpose: str, text: str) -> Any:
        """The value of a string that `encrypt` made; raises `InvalidToken` for anything altered, foreign or expired."""
        try:
            strict = base64.b64encode(base64.b64decode(text, altchars=b"-_", validate=True), altchars=b"-_").decode()
        except (binascii.Error, ValueError):
            raise InvalidToken("malformed") from None
        if strict != text:  # Fernet itself reads several spellings of the same bytes
            raise InvalidToken("malformed")
        try:
            signed = self._vault.decrypt(text.encode())
        except InvalidToken:
            raise InvalidToken("not signed by this server") from None
        return self.verify(purpose, signed)

    def _mac(self, purpose: str, body: bytes) -> bytes:
        return hmac.new(self._key, purpose.encode() + b"\0" + body, hashlib.sha256).digest()


class Vault:
    """Encrypts short secrets under one key (Fernet: AES-128-CBC with HMAC-SHA256)."""

    def __init__(self, key: bytes) -> None:
        self._fernet = fernet.Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"taskhub.vault.v1" + key).digest()))

    def encrypt(self, secret: str) -> bytes:
        """The secret, encrypted, to be stored."""
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, encrypted: bytes) -> str:
        """The secret. Raises `InvalidToken` when it was encrypted with another key, or altered."""
        try:
            return self._fernet.decrypt(encrypted).decode()
        except fernet.InvalidToken:
            raise InvalidToken("encrypted with another key") from None
