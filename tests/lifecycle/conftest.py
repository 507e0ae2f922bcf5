from __future__ import annotations

import pytest

from tests.lifecycle.kit import World, make_world
from tests.store.flushing import _flush_past_the_guards

__all__ = ["_flush_past_the_guards"]


@pytest.fixture
def world(transactional_db: None) -> World:
    """A client and a tool without any policy. Everything commits."""
    return make_world()
