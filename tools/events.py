#!/usr/bin/env python
"""Write `docs/dev/events.md` from `taskhub/domain/audit/kinds.py`: `uv run tools/events.py`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that it also runs as a file

from taskhub.domain.audit.kinds import EVENTS  # noqa: E402 - the path comes first

PAGE = ROOT / "docs" / "dev" / "events.md"
HEAD = """\
# Audit events

Everything the audit log can say. An event has a time, a tenant (none where it concerns all), an action, an actor with
their door and address, the client or person behind it, a target (the tool, the person, the server, …), a reason if one
was given, and what the table says in `before` and `after`. Names are [promised](release.md); a field with `?` may be
missing. Events of tasks and questions are written by triggers and functions in the database, the others through
`record_event`, which warns of what is not here.

Made by `uv run tools/events.py` from `taskhub/domain/audit/kinds.py`; edit that.

| Event | Says | `before` | `after` |
|---|---|---|---|
"""


def _fields(names: str) -> str:
    return "what differs" if names == "*" else ", ".join(f"`{name}`" for name in names.split())


def page() -> str:
    """The whole page."""
    return HEAD + "".join(
        f"| `{action}` | {shape.says} | {_fields(shape.before)} | {_fields(shape.after)} |\n"
        for action, shape in EVENTS.items()
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page())
