"""Programs that connect to a hub, and the snippet to paste into each: the content of `programs.toml`.

Pages of the console and `docs/use/connect.md` are generated from this file, and tests run its snippets.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("programs.toml")
GROUPS: Final[dict[str, str]] = {
    "programs": "Programs",
    "frameworks": "Agent frameworks",
    "sdks": "SDKs and tools",
}
"""The title of each group of programs, by the group's key, in the order of the pages."""
SAMPLE_URL: Final = "http://127.0.0.1:8000/mcp"
"""The endpoint in snippets that are shown without a hub."""
SAMPLE_TOKEN: Final = "TOKEN"  # noqa: S105 - a placeholder for a token


@dataclass(frozen=True, slots=True)
class Program:
    """One program; `programs.toml` explains each field."""

    key: str
    title: str
    group: str
    place: str
    language: str
    snippet: str
    timeout: str
    long_calls: str
    checked: date
    source: str
    install: str = ""
    seconds: float | None = None
    client_info: str = ""
    script: str = ""
    tried: str = ""

    @property
    def publisher(self) -> str:
        """The site of `source`, or its repository if that is on GitHub."""
        host, *path = self.source.split("/")[2:]
        return "/".join(path[:2]) if host == "github.com" else host.removeprefix("www.")

    def filled(self, url: str = SAMPLE_URL, token: str = SAMPLE_TOKEN) -> str:
        """The snippet with endpoint and token in place."""
        return self.snippet.replace("$URL", url).replace("$TOKEN", token)


@cache
def programs() -> tuple[Program, ...]:
    """All programs, ordered by group."""
    found = [
        Program(**{**row, "snippet": row["snippet"].strip("\n")})
        for row in tomllib.loads(SOURCE.read_text())["program"]
    ]
    order = list(GROUPS)
    return tuple(sorted(found, key=lambda program: order.index(program.group)))


def grouped() -> list[tuple[str, list[Program]]]:
    """The groups in their order, each as its title and its programs."""
    return [(title, [program for program in programs() if program.group == key]) for key, title in GROUPS.items()]
