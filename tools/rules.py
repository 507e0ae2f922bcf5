#!/usr/bin/env python
"""Write `docs/dev/rules.md` from `tests/protocol/requirements*.py`: `uv run tools/rules.py`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that it also runs as a file

from tests.protocol.requirements import DEFERRED, FAMILIES, NOTES, REQUIREMENTS  # noqa: E402 - the path comes first

PAGE = ROOT / "docs" / "dev" / "rules.md"
HEAD = """\
# Rules of the protocol

Every rule that a comment, a docstring or a test names by its id: what it says, in our words, and where it stands. The
page decides, not our sentence. What follows the sentence in italics is ours: a choice the text leaves, or where we
knowingly differ. Which tests prove a rule: `git grep '"T26-01"' tests`.

Made by `uv run tools/rules.py` from `tests/protocol/requirements*.py`; edit those.
"""


def _family(rule: str) -> str:
    return rule.rpartition("-")[0]


def page() -> str:
    """The whole page."""
    sources: dict[str, int] = {}
    parts = [HEAD]
    for family, title in FAMILIES.items():
        parts.append(f"\n## {family}: {title}\n\n")
        for rule in sorted((rule for rule in REQUIREMENTS if _family(rule) == family), key=_number):
            sentence, source = REQUIREMENTS[rule]
            number = sources.setdefault(source, len(sources) + 1)
            ours = "".join(f" *{said[rule]}*" for said in (NOTES, DEFERRED) if rule in said)
            text = f"- **{rule}** {sentence}{ours} [{_name(source)}][{number}]"
            parts.append(
                textwrap.fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"
            )
    parts.append("\n")
    parts.extend(f"[{number}]: {source}\n" for source, number in sources.items())
    return "".join(parts)


def _number(rule: str) -> int:
    return int(rule.rpartition("-")[2])


def _name(source: str) -> str:
    """A word for the page, without a space, so that no line breaks inside a link."""
    name = source.rpartition("/")[2].removesuffix(".md")
    return f"SEP-{name[:4]}" if name[:4].isdecimal() else name


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page())
