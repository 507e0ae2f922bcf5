"""How the tests are spread over worker processes (pytest-xdist).

A file stays together, because what it shares (a hub, a browser) is started once for it; so do all
files that share a hub over their room, see `_TOGETHER`. What takes long begins first, so that no
worker sits alone with it in the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

_TOGETHER: Final = ("tests/e2e/",)
"""Rooms whose files have one hub among them that no other room uses."""

_SLOW: Final = ("processes", "browser")
"""Markers of files that mostly wait for processes of their own."""


def pytest_xdist_auto_num_workers() -> int:
    """A worker for each core that we may use, up to four."""
    return min(len(os.sched_getaffinity(0)), 4)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files in the order of `pytest_collection_modifyitems`."""
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((room for room in _TOGETHER if nodeid.startswith(room)), nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """For workers only: what takes long first; the rest stays in its random order."""
    yield
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in _SLOW))
