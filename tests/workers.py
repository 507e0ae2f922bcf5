"""How the tests are spread over worker processes (pytest-xdist), how long each may take, and which are quick.

A file stays together, because what it shares (a hub, a browser) is started once for it. What takes
long begins first, so that no worker sits alone with it in the end.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

_QUICK: Final = ("core", "docs", "domain", "lib", "protocol", "store")
"""Rooms of the quick half, without their tests that are slow."""

_SLOW: Final = ("browser", "processes", "long")
"""Markers of what may take longer than `timeout` of pyproject.toml, as may whatever meets a hub."""

_WINDOWS: Final = {
    "browser 1": ("tests/e2e/test_axe.py", "tests/e2e/test_components.py", "tests/e2e/test_sign_in.py"),
    "browser 2": ("tests/e2e/",),
    "hub 1": ("tests/protocol/v2025_11_25/", "tests/protocol/test_machine_http.py"),
    "hub 2": (
        "tests/processes/",
        "tests/clients/",
        "tests/cli/test_call.py",
        "tests/cli/test_call_follows.py",
        "tests/cli/test_token_and_people.py",
        "tests/cli/test_up_refusals.py",
        "tests/docs/test_transcripts.py",
    ),
    "hub 3": ("tests/protocol/test_pages_for_people.py", "tests/protocol/test_plain_calls.py"),
    "hub 4": ("tests/protocol/", "tests/api/", "tests/domain/clients/test_refused_tokens.py"),
    "hub 5": (
        "tests/deployment/test_cut_listeners.py",
        "tests/deployment/test_database_away.py",
        "tests/deployment/test_lost_connections.py",
        "tests/deployment/test_rates.py",
        "tests/deployment/test_sessions_outlive_the_database.py",
        "tests/deployment/test_two_webs.py",
    ),
}
"""What goes to one worker together: the files that begin with one of these, of the first that has any. They share a
hub, or a hub and a browser, which cost more than many of their tests. None may take much longer than a fourth of all
tests, or other workers end long before its own."""

_SECONDS: Final = 300
"""How long a slow test may take: several times what it takes where nothing else runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core that we may use, up to eight: tests of processes wait as much as they work. One for each core
    and one more, where all are quick: a worker costs seconds of its own before its first test."""
    # First, since xdist itself answers this too, and whoever was registered later is asked before us.
    cores = len(os.sched_getaffinity(0))
    return min(cores + 1 if _only_quick(config) else 2 * cores, 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, or windows of them, in the order of `pytest_collection_modifyitems`."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        """Of some files several at once."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return (None if _only_quick(config) else _window(file)) or file

    config.option.loadscopereorder = False
    return Together(config, log)


def _only_quick(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "quick")


def _window(file: str) -> str | None:
    return next((name for name, files in _WINDOWS.items() if file.startswith(files)), None)


def _slow(item: pytest.Item) -> bool:
    return "hub" in getattr(item, "fixturenames", ()) or any(item.get_closest_marker(name) for name in _SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import rooms that have no quick test, where only these are wanted."""
    inside = collection_path.relative_to(config.rootpath).parts
    return True if _only_quick(config) and len(inside) > 1 and inside[1] not in (*_QUICK, "conftest.py") else None


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


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """What is imported and collected stays, so that looking for garbage meanwhile finds none."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Nor is it looked at from here on, which took a tenth of a worker's time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _place(item: pytest.Item) -> int:
    window = _window(item.nodeid)
    if window is not None:
        return list(_WINDOWS).index(window)
    # Those of a worker wait more than they work: others work meanwhile.
    early = _slow(item) or item.path.parent.name == "worker"
    return len(_WINDOWS) + (0 if item.path.parent.name in ("processes", "deployment") else 1 if early else 2)
