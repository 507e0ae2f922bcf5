"""How much news of a tenant this process has heard. What was read since the newest of it need not be read again for
somebody who asks only because of that news."""

from __future__ import annotations

from collections import Counter

_heard: Counter[int] = Counter()
_everywhere = 0


def heard(tenant_id: int) -> int:
    """A number that is another one after any news of the tenant, or of everybody. To be taken before reading."""
    return _heard[tenant_id] + _everywhere


def hear(tenant_id: int | None) -> None:
    """There is news of the tenant; `None`: perhaps of anything. Called in the event loop alone."""
    global _everywhere
    if tenant_id is None:
        _everywhere += 1
    else:
        _heard[tenant_id] += 1
