"""Unguessable identifiers."""

from __future__ import annotations

import hashlib
import secrets


def public_id() -> str:
    """A new task id for clients: 192 random bits in header-safe ASCII (T26-19). It never begins with `-`, because a
    command line would take it for an option."""
    while (made := secrets.token_urlsafe(24)).startswith("-"):
        pass
    return made


def token(prefix: str = "thub_") -> str:
    """A new bearer token: a prefix that secret scanners can find, and 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> bytes:
    """The SHA-256 of a token (32 bytes), stored instead of the token. A random 256-bit secret needs no salt."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
