"""How the tests are spread over worker processes (pytest-xdist), how long each may take, and which are quick.

A file stays together, because what it shares (a hub, a browser) is started once for it. What takes
long begins first, so that no worker sits alone with it in the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

_QUICK: Final = ("core", "docs", "lib", "lifecycle", "protocol", "queries", "store")
"""Rooms of the quick half, without their tests that are slow."""

_SLOW: Final = ("browser", "processes", "long")
"""Markers of what may take longer than `timeout` of pyproject.toml, as may whatever meets a hub."""

_SECONDS: Final = 300
"""How long a slow test may take: several times what it takes where nothing else runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core that we may use and one more, up to eight: tests of processes wait more than they work.
    One for each core and one more, where all are quick: a worker costs seconds of its own before its first test."""
    # First, since xdist itself answers this too, and whoever was registered later is asked before us.
    cores = len(os.sched_getaffinity(0))
    return min(cores + 1 if config.option.markexpr == "quick" else 2 * cores + 1, 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files in the order of `pytest_collection_modifyitems`."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def _slow(item: pytest.Item) -> bool:
    return "hub" in getattr(item, "fixturenames", ()) or any(item.get_closest_marker(name) for name in _SLOW)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the quick ones, and give the slow ones their time."""
    if _slow(item):
        item.add_marker(pytest.mark.timeout(_SECONDS))
    elif item.path.relative_to(item.config.rootpath).parts[1] in _QUICK:
        item.add_marker("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """For workers only: what takes long first; the rest stays in its random order."""
    yield
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    return 0 if item.path.parent.name in ("e2e", "processes") else 1 if _slow(item) else 2
