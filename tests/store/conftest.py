from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store import raw as sql
from tests.store.flushing import _flush_past_the_guards

__all__ = ["_flush_past_the_guards"]


@pytest.fixture
def raw(db: None) -> Iterator[sql.Raw]:
    """A connection of the application's role with a transaction open; what a test leaves in it is
    rolled back."""
    with sql.connect() as connection:
        yield connection
        connection.rollback()
