"""The page of all parts, in a hub for developers: photographed, and as usable as every other page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub
from tests.support.web import web

pytestmark = pytest.mark.browser


def test_every_part_in_every_state_is_usable_for_everybody(
    plain_hub: RunningHub, browser: Browser, tmp_path: Path
) -> None:
    """Its pictures are kept with the test run, or where `TASKHUB_SHOTS` says."""
    with web(plain_hub, DEBUG="True") as developers:
        visits = Visits(developers, browser)
        page = visits.window()
        go(page, "/dev/components")
        assert look(page, "components", tmp_path) == []
        visits.end()
