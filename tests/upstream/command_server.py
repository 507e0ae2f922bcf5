"""The workshop as a command: `python -m tests.upstream.command_server`."""

from __future__ import annotations

from tests.upstream.servers import workshop

if __name__ == "__main__":
    workshop.run("stdio")
