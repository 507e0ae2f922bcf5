"""See `tests/support/fixtures.py` and the tests of identity."""

from tests.domain.conftest import ada, application, program, tenant
from tests.support.fixtures import alice, bob, hub, nobody

__all__ = ["ada", "alice", "application", "bob", "hub", "nobody", "program", "tenant"]
