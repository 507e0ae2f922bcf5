"""How the tests are spread over worker processes (pytest-xdist), how long each may take, and which are quick.

A file stays together, because what it shares (a hub, a browser) is started once for it. What takes
long begins first, so that no worker sits alone with it in the end.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

_QUICK: Final = ("core", "docs", "lib", "lifecycle", "protocol", "queries", "store")
"""Rooms of the quick half, without their tests that are slow."""

_SLOW: Final = ("browser", "processes", "long")
"""Markers of what may take longer than `timeout` of pyproject.toml, as may whatever meets a hub."""

_WINDOWS: Final = {"test_axe.py": "tests/e2e/1", "test_components.py": "tests/e2e/1", "test_sign_in.py": "tests/e2e/1"}
"""Files of `tests/e2e` that stay together; the others are the other half. Each half has one hub and one browser,
which cost more than many of their tests."""

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
    """Hand out whole files, or what `_together` makes of them, in the order of `pytest_collection_modifyitems`."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        """Of some files several at once."""

        def _split_scope(self, nodeid: str) -> str:
            return _together(nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return Together(config, log)


def _together(file: str) -> str:
    """The name of all that goes to one worker with this file."""
    room, _, name = file.rpartition("/")
    return _WINDOWS.get(name, "tests/e2e/2") if room == "tests/e2e" else file


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


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported and collected stays. The collector of garbage looks at it no more, which took a tenth of
    a worker's time."""
    gc.collect()
    gc.freeze()


def _place(item: pytest.Item) -> int:
    room = item.path.parent.name
    return 0 if room == "e2e" else 1 if room == "processes" else 2 if _slow(item) else 3
