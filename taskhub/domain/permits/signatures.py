"""Signs permits: JWS in compact form (RFC 7515) with Ed25519 (RFC 8037), and the public key as a JWK Set (RFC 7517).

The bytes of a permit follow from its row, and Ed25519 is deterministic, so a permit has only one text. So the hub
checks a permit that comes back by signing its row again, and does not parse JWS."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

from taskhub.domain.audit.seal import key_id
from taskhub.domain.permits.records import Permit
from taskhub.lib import jsonx

TYPE: Final = "taskhub-permit+jwt"
"""The `typ` of a permit, which distinguishes it from every other JWT (RFC 8725, 3.11)."""


def permit_key() -> Ed25519PrivateKey:
    """The installation's Ed25519 key for permits, derived from `SECRET_KEY` like the key of the audit log's seals."""
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(b"taskhub.permit.v1" + settings.SECRET_KEY.encode()).digest()
    )


def arguments_digest(arguments: dict[str, Any]) -> str:
    """The digest of a call's arguments, in hexadecimal: SHA-256 of their canonical JSON."""
    return hashlib.sha256(jsonx.canonical(arguments)).hexdigest()


def signed(permit: Permit) -> str:
    """The permit as its client gets it: a JWS in compact form."""
    key = permit_key()
    head = {"alg": "EdDSA", "kid": key_id(key.public_key()), "typ": TYPE}
    claims = {
        "tenant": permit.tenant,
        "client": {"issuer": permit.issuer, "subject": permit.subject, "id": permit.client_id},
        "server": permit.server,
        "tool": permit.tool,
        "arguments_sha256": permit.arguments_sha256,
        "rules": permit.rules_version,
        "exp": int(permit.expires_at.timestamp()),
        "jti": permit.public_id,
    }
    body = f"{_encoded(jsonx.encode(head))}.{_encoded(jsonx.encode(claims))}"
    return f"{body}.{_encoded(key.sign(body.encode()))}"


def is_signed(permit: Permit, text: str) -> bool:
    """Whether `text` is what `signed` returns for the permit."""
    return hmac.compare_digest(signed(permit).encode(), text.encode("utf-8", "surrogatepass"))


def jwks() -> dict[str, Any]:
    """The public key that verifies permits, as a JWK Set."""
    public = permit_key().public_key()
    raw = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    key = {"kty": "OKP", "crv": "Ed25519", "x": _encoded(raw), "kid": key_id(public), "use": "sig", "alg": "EdDSA"}
    return {"keys": [key]}


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
