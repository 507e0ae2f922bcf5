"""Servers that others wrote, unmodified from their registries, behind a TaskHub and beside a direct connection.

    uv run python -m tests.servers.run [--all | --quick | SERVER ...]

Each server is asked over three wires for its lists, called with every tool that it has, answered what it asks, left
while a call runs and made to say something big. The same is done directly, and both must be equal, but for what
`compare.py` names. One line for each server, then a table; the exit code is 1 if any cell differs. `--quick`: those
that the gate tries.
`TASKHUB_TOOLS_DIR`: where servers are installed (default ~/.cache/taskhub-tools).
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.servers import installed
from tests.servers.hub import ROOT, Hub
from tests.servers.kinds import Server
from tests.servers.listing import SERVERS
from tests.servers.site import site
from tests.servers.trial import CELLS, NONE, WIRES, Trial

PAGE: Final = ROOT / "docs" / "run" / "servers.md"
MARKS: Final = ("<!-- The matrix, written by ./dev servers --write -->", "<!-- the end of the matrix -->")
AT_ONCE: Final = 2

Found = dict[str, dict[str, dict[str, str]]]
"""By server, wire and cell: empty where all is equal."""
Notes = dict[str, dict[tuple[str, str], list[str]]]
"""By server: the known differences that were met, by wire and cell."""


def table(found: Found, notes: Notes, chosen: list[Server]) -> str:
    """The matrix in Markdown: with a number where a known difference was met, and which tools were not called."""
    lines = [f"| Server | Client | {' | '.join(CELLS)} |", f"|---|---|{'---|' * len(CELLS)}"]
    told = list(dict.fromkeys(note for cells in notes.values() for each in cells.values() for note in each))
    for server in chosen:
        for place, (wire, cells) in enumerate(found[server.name].items()):
            shown = []
            for cell in CELLS:
                met = dict.fromkeys(notes.get(server.name, {}).get((wire, cell), ()))
                marks = ", ".join(f"({told.index(note) + 1})" for note in met)
                equal = f"equal, but {marks}" if marks else "equal"
                shown.append({"": equal, NONE: NONE}.get(cells[cell], "**differs**"))
            lines.append(f"| {'' if place else name_of(server)} | {wire} | {' | '.join(shown)} |")
    lines += ["", *(f"{place}. {note}." for place, note in enumerate(told, 1))]
    left = [(tool, why) for server in chosen for tool, why in server.not_called.items()]
    if left:
        lines += ["", "Not called:", "", *dict.fromkeys(f"- `{tool}`: {why}" for tool, why in left)]
    return "\n".join(lines).rstrip()


def name_of(server: Server) -> str:
    """What a server is called in the table."""
    return f"{installed.shown(server.package)}{server.about and ', '}{server.about}"


def written(matrix: str) -> None:
    """Write the matrix into the page."""
    text = PAGE.read_text()
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    PAGE.write_text(f"{before}{MARKS[0]}\n\nTried on {today}.\n\n{matrix}\n\n{MARKS[1]}{after}")


def _summary(wires: Mapping[str, Mapping[str, str]]) -> str:
    wrong = []
    for wire, cells in wires.items():
        for cell, why in cells.items():
            if why not in ("", NONE):
                wrong += [f"\n  {wire}, {cell}:", *(f"\n    {line[:600]}" for line in why.splitlines()[:20])]
    return "".join(wrong) or "all as directly"


def _chosen(options: argparse.Namespace) -> list[Server]:
    wanted = [
        server
        for server in SERVERS
        if server.name in options.names or (not options.names and (server.quick or not options.quick))
    ]
    for server in wanted:
        if server.needs and not shutil.which(server.needs):
            print(f"{server.name}: left out, since {server.needs} is missing", flush=True)
    return [server for server in wanted if not server.needs or shutil.which(server.needs)]


async def tried(chosen: list[Server], hub: Hub, kept: Path, page: str) -> tuple[Found, Notes]:
    """What came of each, and the known differences that were met."""
    tokens = {wire: hub.manage("token", "create", f"matrix-{wire.replace(' ', '-')}") for wire in WIRES}
    places = asyncio.Semaphore(AT_ONCE)
    found: Found = {server.name: {} for server in chosen}
    notes: Notes = {}

    async def one(server: Server) -> None:
        async with places:
            began = time.monotonic()
            trial = Trial(server, hub, kept, page)
            try:
                found[server.name] = await trial.tried(tokens)
            except Exception as error:  # noqa: BLE001 - whatever a server does is its line
                why = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
                found[server.name] = {wire: dict.fromkeys(CELLS, "not tried") for wire in WIRES}
                found[server.name][next(iter(WIRES))][CELLS[0]] = why
            notes[server.name] = trial.notes
            print(f"{server.name}: {_summary(found[server.name])} ({time.monotonic() - began:.0f} s)", flush=True)

    await asyncio.gather(*map(one, chosen))
    return found, notes


def main(options: argparse.Namespace) -> int:
    """Try the servers; 1 if anything is not equal."""
    chosen = _chosen(options)
    for home in dict.fromkeys(server.home for server in chosen):
        installed.javascript() if home == "javascript" else installed.python(home)
    kept = Path(tempfile.mkdtemp(prefix="servers-"))
    kept.chmod(0o755)
    hub = Hub(kept)
    try:
        with site() as page:
            found, notes = asyncio.run(tried(chosen, hub, kept, page))
    finally:
        hub.stop()
    matrix = table(found, notes, chosen)
    print(matrix)
    cells = [cell for wires in found.values() for row in wires.values() for cell in row.values()]
    failed = sum(cell not in ("", NONE) for cell in cells)
    if failed:
        print(f"{failed} of {len(cells)} cells differ; logs: {kept}")
        return 1
    if options.write:
        written(matrix)
    shutil.rmtree(kept, ignore_errors=True)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SERVER", help=", ".join(server.name for server in SERVERS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all", action="store_true", help="as without a name")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    sys.exit(main(parser.parse_args()))
