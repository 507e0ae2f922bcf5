"""The part of a peer's IP address that tells callers apart."""

from __future__ import annotations

import ipaddress


def network(address: str) -> str:
    """An IPv4 address as it is; for an IPv6 address its /64 network, because a host usually has all addresses of its
    /64. Any other text is returned unchanged."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), 64), strict=False))
