"""Unguessable identifiers."""

from __future__ import annotations

import hashlib
import secrets


def public_id() -> str:
    """A task id for the wire: 192 random bits in header-safe ASCII (T26-19), not with a `-` in front:
    command lines would take it for an option."""
    while (made := secrets.token_urlsafe(24)).startswith("-"):
        pass
    return made


def token(prefix: str = "thub_") -> str:
    """A bearer token: a prefix that secret scanners can find, and 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> bytes:
    """What is stored of a token: SHA-256, 32 bytes. A random 256-bit secret needs no salt."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
