"""The certificate authorities that connections to servers trust."""

from __future__ import annotations

import functools
import ssl

import httpx2


@functools.cache
def trusted() -> ssl.SSLContext:
    """The context of every connection to a server, made once: reading the authorities takes 20 ms of CPU. Trusts those
    of `SSL_CERT_FILE` and `SSL_CERT_DIR`, or of the system."""
    return httpx2.create_ssl_context()
