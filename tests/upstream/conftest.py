from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from taskhub.upstream.pool import Pool
from tests.upstream import kit, servers


@pytest.fixture(autouse=True)
def _gates() -> Iterator[None]:
    """Every test starts with closed gates and leaves no tool waiting."""
    servers.gates.reset()
    servers.shelf.reset()
    yield
    servers.gates.opened.set()


@pytest.fixture
async def workshop() -> AsyncIterator[Pool]:
    """The in-process server."""
    async with kit.pool_of(kit.WORKSHOP) as pool:
        yield pool
