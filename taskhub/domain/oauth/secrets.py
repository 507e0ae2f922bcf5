"""How the secrets of confidential applications are hashed."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from django.contrib.auth.hashers import BasePasswordHasher


class RandomSecretHasher(BasePasswordHasher):
    """SHA-256 for secrets that the hub generates, with 256 random bits or more.

    A slow hash protects passwords that people choose. For random secrets a slow hash has no use, and every wrong secret
    that anybody sends would cost half a second of processor time.
    """

    algorithm = "random_sha256"

    def salt(self) -> str:
        """Empty: random secrets need no salt, since no two of them are equal."""
        return ""

    def encode(self, password: str, salt: str) -> str:
        """The algorithm and the digest, to be stored. `salt` is not used."""
        return f"{self.algorithm}${hashlib.sha256(password.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def decode(self, encoded: str) -> dict[str, Any]:
        """The parts of a stored secret, as `encode` made it."""
        algorithm, _, digest = encoded.partition("$")
        return {"algorithm": algorithm, "hash": digest, "salt": ""}

    def verify(self, password: str, encoded: str) -> bool:
        """Whether `password` is the secret that `encoded` was made of."""
        return hmac.compare_digest(self.encode(password, ""), encoded)

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        """The name of the algorithm; nothing of the digest is shown."""
        return {"algorithm": self.algorithm}

    def must_update(self, encoded: str) -> bool:
        """Always `False`: there are no rounds to raise."""
        return False

    def harden_runtime(self, password: str, encoded: str) -> None:
        """Does nothing: each secret takes the same time."""
