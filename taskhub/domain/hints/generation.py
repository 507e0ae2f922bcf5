"""Counts the hints of each tenant that this process has received. Data that was read after a hint need not be read
again for another person who asks because of the same hint."""

from __future__ import annotations

from collections import Counter

_heard: Counter[int] = Counter()
_everywhere = 0


def heard(tenant_id: int) -> int:
    """A number that grows with each hint for the tenant or for all tenants. Take it before you read the data."""
    return _heard[tenant_id] + _everywhere


def hear(tenant_id: int | None) -> None:
    """Count a hint for the tenant, or for all tenants if `None`. Call it on the event loop only: it takes no lock."""
    global _everywhere
    if tenant_id is None:
        _everywhere += 1
    else:
        _heard[tenant_id] += 1
