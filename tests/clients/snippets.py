"""The snippets that pages say to paste, run as they stand: each connects and names the hub's tools.

    uv run python -m tests.clients.snippets URL TOKEN …

runs those of SDKs, after `run.sh` has installed what they need; `agents/run.py` runs those of frameworks.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from taskhub.domain.clients.programs import Program, programs

TOOLS = Path(os.environ.get("TASKHUB_TOOLS_DIR") or Path.home() / ".cache" / "taskhub-tools")
SECONDS = 180
"""Of a dozen frameworks that start at once some take a minute to import."""
LISTED = ("echo", "countdown", "deploy")
"""Tools of the demo, which each snippet has to name."""


async def tried(program: Program, command: Sequence[str], url: str, token: str, home: Path | None = None) -> list[str]:
    """Run a snippet by the interpreter `command` and read what it prints. What went wrong; nothing if all is well.

    `home`: where it lies, if it finds its packages from there.
    """
    end = {"python": ".py", "javascript": ".mjs"}.get(program.language, "")
    with tempfile.NamedTemporaryFile("w", prefix="snippet-", suffix=end, dir=home) as file:
        file.write(program.filled(url, token))
        file.flush()
        words = [*command, file.name] if end else [*command, *_options(program.filled(url, token))]
        process = await asyncio.create_subprocess_exec(
            *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CREWAI_DISABLE_TELEMETRY": "true"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(SECONDS):
                said = (await process.communicate())[0].decode()
        except TimeoutError:
            return [f"the snippet of {program.title} is not done within {SECONDS} s"]
        finally:
            if process.returncode is None:
                process.kill()
    if process.returncode or any(tool not in said for tool in LISTED):
        return [f"the snippet of {program.title}, exit code {process.returncode}:", *said.splitlines()[-20:]]
    return []


def _options(line: str) -> list[str]:
    """What follows the package that npx runs, which is installed here."""
    words = shlex.split(line.replace("\\\n", ""))
    assert words[:2] == ["npx", "-y"]
    return words[3:]


async def main(url: str, token: str) -> None:
    commands = {
        "python-sdk": [sys.executable],
        "fastmcp": [str(TOOLS / "clients-fastmcp_client" / "bin" / "python")],
        "inspector": [os.environ["INSPECTOR"]],
    }
    found = [program for program in programs() if program.group == "sdks"]
    wrong = await asyncio.gather(*(tried(program, commands[program.key], url, token) for program in found))
    for line in (line for lines in wrong for line in lines):
        print(line)
    if any(wrong):
        sys.exit(1)
    print(f"snippets: all as expected ({', '.join(program.title for program in found)})")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
