"""Health at three depths, and the figures for scrapers."""

from __future__ import annotations

import re

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.processes


def test_a_live_process_says_so_to_anybody(hub: RunningHub, nobody: Client) -> None:
    response = nobody._http.get(f"{hub.base}/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response.headers["cache-control"]


@pytest.mark.parametrize("query", ["", "?full"])
def test_a_ready_hub_has_no_problems(hub: RunningHub, nobody: Client, query: str) -> None:
    response = nobody._http.get(f"{hub.base}/readyz{query}")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "problems": []})


def test_figures_are_in_the_text_format(hub: RunningHub, nobody: Client) -> None:
    response = nobody._http.get(f"{hub.base}/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    for line in response.text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?[0-9.e+-]+', line), line


def test_nothing_here_names_a_caller(hub: RunningHub, alice: Client) -> None:
    alice.tool("greet", {"name": "x"})
    for path in ("/healthz", "/readyz", "/readyz?full", "/metrics"):
        assert "agent-a" not in alice._http.get(f"{hub.base}{path}").text
