"""The fixtures of tests that meet a whole hub; each package of such tests imports them in its conftest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, shared


@pytest.fixture(scope="session")
def hub() -> Iterator[RunningHub]:
    """The hub of the session, with the conformance fixtures and `tests/support/upstream.py` behind it."""
    with shared() as running:
        yield running


@pytest.fixture
def alice(hub: RunningHub) -> Iterator[Client]:
    """The client `agent-a`."""
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        yield client


@pytest.fixture
def bob(hub: RunningHub) -> Iterator[Client]:
    """The client `agent-b`, in an auth context of its own."""
    with Client(hub.base, hub.tokens["agent-b"]) as client:
        yield client


@pytest.fixture
def nobody(hub: RunningHub) -> Iterator[Client]:
    """A caller without a token."""
    with Client(hub.base, None) as client:
        yield client
