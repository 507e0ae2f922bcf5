"""Sessions over the shared hub; see `tests/support/fixtures.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.fixtures import alice, bob, hub, nobody
from tests.support.hub import RunningHub
from tests.support.session import EVERYTHING, SessionClient
from tests.support.web import Web, web

__all__ = ["alice", "bob", "hub", "nobody"]

Start = Callable[..., SessionClient]


@pytest.fixture(scope="package")
def anonymous(hub: RunningHub) -> Iterator[Web]:
    """A web process that serves callers without a token."""
    with web(hub, TASKHUB_ANONYMOUS="True") as running:
        yield running


@pytest.fixture
def start(hub: RunningHub) -> Iterator[Start]:
    """Sessions of `agent-a`, or of another token; ended with the test."""
    with ExitStack() as stack:

        def one(token: str | None = hub.tokens["agent-a"], **how: Any) -> SessionClient:
            return stack.enter_context(SessionClient(hub.base, token, **how))

        yield one


@pytest.fixture
def session(start: Start) -> SessionClient:
    """A session of `agent-a` whose client can answer everything."""
    return start(caps=EVERYTHING)


@pytest.fixture
def stranger(hub: RunningHub, start: Start) -> SessionClient:
    """A session of `agent-b`."""
    return start(hub.tokens["agent-b"], caps=EVERYTHING)
