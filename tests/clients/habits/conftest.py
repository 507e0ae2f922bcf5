"""See `tests/support/fixtures.py`."""

from tests.support.fixtures import hub

__all__ = ["hub"]
