#!/usr/bin/env python
"""Write `docs/use/connect.md` from `taskhub/domain/clients/programs.toml`: `uv run tools/connect.py`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that it also runs as a file

from taskhub.domain.clients.programs import (  # noqa: E402 - the path comes first
    SAMPLE_TOKEN,
    SAMPLE_URL,
    Program,
    grouped,
)

PAGE = ROOT / "docs" / "use" / "connect.md"
FENCES = {"javascript": "js", "shell": ""}
HEAD = f"""\
# Connect a client

What to paste into which program. It needs the endpoint, which is `/mcp` at TaskHub's address, and a token: below,
`{SAMPLE_URL}` and `{SAMPLE_TOKEN}` stand for them. A token is a password: keep files that hold one out of git.
In the console, *Clients*, *Connect a client* has the same with the hub's endpoint, and the page that shows a new token
has it with that token.

A program that speaks OAuth needs no token: give it the endpoint alone, and [sign in](clients.md#signing-in).

The snippets of frameworks and SDKs were run against a hub, in the versions that are named, by the
[scripts](../dev/testing.md#clients) that try them. The programs could not be installed there: theirs follow what their
makers say, and tests read them as the program would. What each client can do is told in [clients](clients.md), and what
a model sees of a long call in [agents](agents.md).

Made by `uv run tools/connect.py` from `taskhub/domain/clients/programs.toml`; edit that.
"""


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _fenced(program: Program) -> str:
    return f"```{FENCES.get(program.language, program.language)}\n{program.filled()}\n```"


def _section(program: Program) -> str:
    checked = f"{program.checked:%Y-%m-%d}, with [{program.publisher}]({program.source})"
    tried = f"Tried: {program.tried}. " if program.tried else ""
    lines = [
        f"### {program.title}",
        *([f"```\n{program.install}\n```"] if program.install else []),
        _wrapped(program.place),
        _fenced(program),
        "\n".join(
            _wrapped(f"- {text}", "  ")
            for text in (
                f"Time-out: {program.timeout}",
                f"Long calls: {program.long_calls}",
                f"{tried}Last checked: {checked}.",
            )
        ),
    ]
    return "\n\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, programs in grouped():
        parts.append(f"\n## {title}\n")
        parts.extend(f"\n{_section(program)}" for program in programs)
    return "".join(parts)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page())
