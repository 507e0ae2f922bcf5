from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.flushing import _flush_past_the_guards
from tests.upstream.conftest import _gates
from tests.upstream.servers import gates
from tests.worker.kit import Hall

__all__ = ["_flush_past_the_guards", "_gates"]


@pytest.fixture
def hall(transactional_db: None) -> Iterator[Hall]:
    """A client, servers and a worker that is started when the test says so, and stopped in any case."""
    made = Hall()
    try:
        yield made
    finally:
        gates.opened.set()  # a tool that blocks its thread would hold the worker's end up
        made.stop()
