"""Addresses of peers, as far as they tell callers apart."""

from __future__ import annotations

import ipaddress


def network(address: str) -> str:
    """The address itself, or of an IPv6 address its /64 network: whoever has one address of it has them all. Any other
    text is returned as it is."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), 64), strict=False))
