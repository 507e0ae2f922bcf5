"""Counts the news of each tenant that this process has heard. A read that is newer than the last news need not be made
again for somebody who asks only because of that news."""

from __future__ import annotations

from collections import Counter

_heard: Counter[int] = Counter()
_everywhere = 0


def heard(tenant_id: int) -> int:
    """A number that changes with any news of the tenant, or of all tenants. To be taken before reading."""
    return _heard[tenant_id] + _everywhere


def hear(tenant_id: int | None) -> None:
    """Count news of the tenant; `None` for news that may be of any tenant. For the event loop only."""
    global _everywhere
    if tenant_id is None:
        _everywhere += 1
    else:
        _heard[tenant_id] += 1
