"""Which programs connect to a hub, and what to paste into each: `programs.toml`, read.

Pages of the console and `docs/use/connect.md` are made of it, and tests run it.
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
"""Group: its title, in the order of the pages."""
SAMPLE_URL: Final = "http://127.0.0.1:8000/mcp"
"""Stands for the endpoint where there is none."""
SAMPLE_TOKEN: Final = "TOKEN"  # noqa: S105 - stands for a token where there is none


@dataclass(frozen=True, slots=True)
class Program:
    """One program; `programs.toml` tells each field."""

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
        """Whose page or repository `source` is."""
        host, *path = self.source.split("/")[2:]
        return "/".join(path[:2]) if host == "github.com" else host.removeprefix("www.")

    def filled(self, url: str = SAMPLE_URL, token: str = SAMPLE_TOKEN) -> str:
        """The snippet with endpoint and token in place."""
        return self.snippet.replace("$URL", url).replace("$TOKEN", token)


@cache
def programs() -> tuple[Program, ...]:
    """All of them, by group."""
    found = [
        Program(**{**row, "snippet": row["snippet"].strip("\n")})
        for row in tomllib.loads(SOURCE.read_text())["program"]
    ]
    order = list(GROUPS)
    return tuple(sorted(found, key=lambda program: order.index(program.group)))


def grouped() -> list[tuple[str, list[Program]]]:
    """Each group's title with its programs."""
    return [(title, [program for program in programs() if program.group == key]) for key, title in GROUPS.items()]
