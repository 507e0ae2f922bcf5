"""The fixtures of the hub, and callers that speak SEP-2557."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fixtures import alice, hub
from tests.support.hub import RunningHub
from tests.support.sep_2557_client import Historical


@pytest.fixture
def ann(hub: RunningHub) -> Iterator[Historical]:
    """The client `agent-a` on the mount."""
    with Historical(hub.base, hub.tokens["agent-a"]) as client:
        yield client


@pytest.fixture
def ben(hub: RunningHub) -> Iterator[Historical]:
    """The client `agent-b` on the mount, in an auth context of its own."""
    with Historical(hub.base, hub.tokens["agent-b"]) as client:
        yield client


__all__ = ["alice", "ann", "ben", "hub"]
