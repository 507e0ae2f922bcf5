"""The page of audit events is what `domain/audit/kinds.py` says, and what other pages name is on it."""

from __future__ import annotations

import re
from pathlib import Path

from taskhub.domain.audit.kinds import EVENTS
from tools import events

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_what_the_table_says() -> None:
    assert events.PAGE.read_text() == events.page(), "run tools/events.py"


def test_an_event_is_told_in_one_sentence() -> None:
    for action, shape in EVENTS.items():
        assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", action)
        assert re.fullmatch(r"[A-Z][^|\n]+\.", shape.says), action


def test_what_authorization_says_is_on_record_is() -> None:
    section = (
        (DOCS / "run" / "authorization.md").read_text().partition("## What is on record\n")[2].partition("\n## ")[0]
    )
    named, family = set(), ""
    for word in re.findall(r"`([a-z.]+)`", section):
        family = family if word.startswith(".") else word.partition(".")[0]
        named.add(f"{family}{word}" if word.startswith(".") else word)
    assert len(named) > 20
    assert named - set(EVENTS) == set()
