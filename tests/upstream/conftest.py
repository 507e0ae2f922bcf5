from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from taskhub.upstream.connection import Profile
from taskhub.upstream.pool import Pool
from taskhub.upstream.target import Target
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


@pytest.fixture(scope="session")
def workshop_address() -> Iterator[Target]:
    """The same server over HTTP, in a thread of this process."""
    with kit.WorkshopServer() as server:
        yield server.target


@pytest.fixture(params=["in process", "over http"])
async def workshops(request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    """The server in process, and over HTTP: there after a first call, since later ones are single requests."""
    over_http = request.param == "over http"
    target = request.getfixturevalue("workshop_address") if over_http else kit.WORKSHOP
    async with kit.pool_of(target) as pool:
        if over_http:
            assert kit.text(await kit.call(pool, "echo", {"text": "first"})) == "first"
            assert pool.posts_for(Profile(), "echo")
        yield pool
