"""The one table of versions: in order, and as complete as the SDK's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from mcp_types import version as sdk

from taskhub.core.versions import STATELESS, WITH_SESSIONS, Proposal, Version, is_stateless
from taskhub.protocol.registry import REVISIONS


def test_versions_are_dates_and_stand_oldest_first() -> None:
    assert list(Version) == sorted(Version)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", version) for version in Version)


def test_each_version_is_of_one_of_the_two_wires_as_the_sdk_has_it() -> None:
    assert set(sdk.MODERN_PROTOCOL_VERSIONS) == STATELESS
    assert set(sdk.HANDSHAKE_PROTOCOL_VERSIONS) == WITH_SESSIONS


@pytest.mark.parametrize(
    ("version", "stateless"),
    [
        ("2026-07-28", True),
        ("2025-11-25", False),
        ("2024-11-05", False),
        ("2026-07-29", False),
        ("", False),
        (None, False),
    ],
)
def test_a_version_that_nobody_published_is_of_no_wire(version: str | None, stateless: bool) -> None:
    assert is_stateless(version) is stateless


def test_what_we_speak_is_in_the_table() -> None:
    assert set(REVISIONS) - set(Version) == set(Proposal)


def test_no_other_module_writes_a_version_out() -> None:
    known = "|".join(re.escape(name) for name in (*Version, *Proposal))
    written = re.compile(rf"""(?<![\w/])["'](?:{known})["']""")
    found = [
        str(path.relative_to(settings.BASE_DIR))
        for path in (Path(settings.BASE_DIR) / "taskhub").rglob("*.py")
        if path.name != "versions.py" and written.search(path.read_text())
    ]
    assert found == []
