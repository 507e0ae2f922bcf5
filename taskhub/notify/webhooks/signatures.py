"""Signs messages as Standard Webhooks say: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence


def signature(secret: str, message_id: str, timestamp: int, body: str) -> str:
    """The signature of a message. `secret` begins with `whsec_`, as receivers have it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def signatures(secrets: Sequence[str], message_id: str, timestamp: int, body: str) -> str:
    """The value of the header `webhook-signature`: one signature for each secret."""
    return " ".join(signature(secret, message_id, timestamp, body) for secret in secrets)
