"""The public MCP Inspector, unmodified, signing in to a running TaskHub from its command line.

    python -m tests.clients.inspector_oauth URL DATA_DIR [DOCUMENT_URL]

The Inspector prints an address for the person's browser and listens for what comes back; the
person is played with plain requests, as in `sdk_oauth.py`. DOCUMENT_URL must lead back to
http://127.0.0.1:6276/oauth/callback. `INSPECTOR` is the command, `PATH` must know Node 22:

    npm install @modelcontextprotocol/inspector@2.12.0
    INSPECTOR=node_modules/.bin/mcp-inspector
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import sys
import tempfile
from pathlib import Path

import httpx2

from tests.clients.sdk_oauth import Person, register

CALLBACK = "http://127.0.0.1:6276/oauth/callback"
PATIENCE = 60.0
_LINK = re.compile(r"https?://[^\s\x00-\x1f]+/oauth/authorize\?[^\s\x00-\x1f]+(?=[\s\x00-\x1f])")


class Inspector:
    """One run of the Inspector's command line, in a terminal of its own: it asks for a person only there."""

    def __init__(self, home: str, *arguments: str) -> None:
        self.text = ""
        self.stepped_up = False
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:  # the child
            command = [*os.environ.get("INSPECTOR", "mcp-inspector").split(), "--cli", *arguments]
            os.execvpe(
                command[0], command, {**os.environ, "HOME": home, "TERM": "dumb", "MCP_AUTO_OPEN_ENABLED": "false"}
            )

    async def read(self) -> str:
        """What it says next; empty at its end."""
        try:
            raw = await asyncio.to_thread(os.read, self.terminal, 65_536)
        except OSError:
            return ""
        self.text += raw.decode(errors="replace").replace("\r\n", "\n")
        return self.text

    async def run(self, person: Person) -> str:
        """To the end; where it asks for a person, the person goes there and comes back."""
        been: set[str] = set()
        try:
            async with asyncio.timeout(PATIENCE):
                while await self.read():
                    if "[y/N]" in self.text and not self.stepped_up:
                        # Refused with 403 and the scope it lacks: it offers to come back with more.
                        self.stepped_up = True
                        person.allowed = None
                        os.write(self.terminal, b"y\n")
                    for link in set(_LINK.findall(self.text)) - been:
                        been.add(link)
                        await person.open(link)
                        async with httpx2.AsyncClient() as browser:
                            await browser.get(CALLBACK, params=person.brought)
                await asyncio.to_thread(os.waitpid, self.pid, 0)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            raise AssertionError(f"the Inspector did not end:\n{self.text}") from None
        finally:
            os.close(self.terminal)
        return self.text


async def call(url: str, person: Person, tool: str, argument: str, text: str, *known_by: str) -> str:
    """Call a tool; the Inspector starts without any memory of an earlier sign-in."""
    with tempfile.TemporaryDirectory(prefix="inspector-") as home:
        return await Inspector(
            home, url, "--transport", "http", "--protocol-era", "modern", "--connect-timeout", "0",
            "--method", "tools/call", "--tool-name", tool, "--tool-arg", f"{argument}={text}", *known_by,
        ).run(person)  # fmt: skip


async def main(url: str, data: str, document: str | None = None, tool: str = "echo", argument: str = "text") -> None:
    """Known by a registration, and by a document; refused when denied, and with too little."""
    users = json.loads((Path(data) / "credentials.json").read_text())["users"]
    base = url.removesuffix("/mcp")
    admin, person = (Person(base, users[name]["username"], users[name]["password"]) for name in ("admin", "operator"))
    await admin.sign_in()
    await person.sign_in()
    registered = await register(admin, "Inspector, registered", CALLBACK)
    ways = [("--client-id", str(registered.client_id), "--client-secret", str(registered.client_secret))]
    if document is not None:
        ways.append(("--client-metadata-url", document))
    for way in ways:
        said = await call(url, person, tool, argument, "hello-inspector", *way)
        assert "hello-inspector" in said.split("oauth/authorize")[-1], said
        print("signed in with", way[0])
        person.says = "deny"
        said = await call(url, person, tool, argument, "hello-inspector", *way)
        assert "The person said no." in said, said
        print("denied with", way[0])
        person.says, person.allowed = "allow", {"tasks:read"}
        said = await call(url, person, tool, argument, "hello-inspector", *way)
        assert "needs additional scope: tasks:call" in said, said
        assert "hello-inspector" in said.split("oauth/authorize")[-1], said
        print("too little with", way[0] + ", and then enough")
    for somebody in (admin, person):
        await somebody.http.aclose()
    print("MCP Inspector, signing in: all as expected")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
