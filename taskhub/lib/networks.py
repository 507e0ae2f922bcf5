"""Addresses of peers, as far as they tell callers apart."""

from __future__ import annotations

import ipaddress


def network(address: str) -> str:
    """The address itself, and of one of IPv6 its network of 64 bits, in which whoever has one address has them all.
    What is no address stays as it is."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), 64), strict=False))
