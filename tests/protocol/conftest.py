"""See `tests/support/fixtures.py`."""

from tests.support.fixtures import alice, bob, hub, nobody

__all__ = ["alice", "bob", "hub", "nobody"]
