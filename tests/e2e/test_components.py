"""The page of all parts, in a hub for developers: photographed, and as usable as every other page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def developer_hub(chromium: Path) -> Iterator[RunningHub]:
    """A hub with `DEBUG`, and no servers."""
    running = RunningHub(servers=(), DEBUG="True")
    try:
        yield running
    finally:
        print(running.log.read_text())
        running.stop()


def test_every_part_in_every_state_is_usable_for_everybody(
    developer_hub: RunningHub, browser: Browser, tmp_path: Path
) -> None:
    """Its pictures are kept with the test run, or where `TASKHUB_SHOTS` says."""
    visits = Visits(developer_hub, browser)
    page = visits.window()
    go(page, "/dev/components")
    assert look(page, "components", tmp_path) == []
    visits.end()
