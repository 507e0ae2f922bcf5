"""How a server is called that nobody gave a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.spec import parse_spec

NAMES = {
    "stdio:npx -y @scope/server-filesystem /dir": "filesystem",
    "stdio:npx -y @modelcontextprotocol/server-everything@2026.1.0 stdio": "everything",
    "stdio:npx --package @acme/tools acme-mcp": "acme",
    "stdio:npx @acme/mcp": "acme",
    "stdio:npx -y @acme/mcp-server@latest": "acme",
    "stdio:pnpm dlx mcp-remote https://example.com/mcp": "example",
    "stdio:npx -y mcp-remote@0.1.29 https://mcp.linear.app/sse --header 'X: y'": "linear",
    "stdio:npx -y mcp-remote": "remote",
    "stdio:npx -y mcp-remote https://": "remote",
    "stdio:deno run -A npm:@acme/x-mcp": "x",
    "stdio:uvx mcp-server-time --local-timezone=Europe/Berlin": "time",
    "stdio:uvx --from git+https://example.com/x/y mcp-server-git": "git",
    "stdio:uvx mcp-server-fetch[all]==1.2": "fetch",
    "stdio:uv run --directory /srv/weather server.py": "weather",
    "stdio:uv --directory /srv/weather run server.py": "weather",
    "stdio:uv run mcp_weather.py": "weather",
    "stdio:/usr/bin/python3.12 -m pkg.server": "pkg",
    "stdio:python -m mcp_server_sqlite --db x": "sqlite",
    "stdio:python -u /srv/weather/server.py": "weather",
    "stdio:node /srv/github-mcp-server/dist/index.js": "github",
    "stdio:docker run -i --rm -e TOKEN mcp/filesystem:latest /x": "filesystem",
    "stdio:docker run -i --rm ghcr.io/github/github-mcp-server": "github",
    "stdio:env KEY=x mcp-server-git": "git",
    "stdio:sh -c 'exec my-server'": "exec-my",
    "stdio:/opt/tools/files --all": "files",
    "stdio:mcp-server": "mcp-server",
    "stdio:python": "python",
    "stdio:'größe 1'": "gr-e-1",
    "https://mcp.example.com/mcp": "example",
    "https://example.com": "example",
    "https://docs.example.co.uk/mcp": "example",
    "https://mcp.com/": "mcp",
    "https://api.githubcopilot.com/mcp/": "githubcopilot",
    "http://localhost/mcp": "localhost",
    "http://localhost:8001/mcp": "localhost-8001",
    "http://127.0.0.1:8001/mcp": "127.0.0.1-8001",
    "http://[::1]:8001/mcp": "1-8001",
    "http://files:9/mcp": "files-9",
    "python:tests.clients.extra_server:server": "extra-server",
    "python:taskhub.demo.server:server": "demo",
    "python:server:server": "server",
    "python:weather:mcp": "weather",
}


@pytest.mark.parametrize("spec", NAMES)
def test_a_server_is_named_after_what_tells_it_apart(spec: str) -> None:
    found = parse_spec(spec)
    assert (found.name, found.named) == (NAMES[spec], False)


@pytest.mark.parametrize("spec", NAMES)
def test_a_given_name_stands(spec: str) -> None:
    found = parse_spec(f"mine={spec}")
    assert (found.name, found.named, found.target) == ("mine", True, parse_spec(spec).target)


@given(
    st.sampled_from(["stdio:", "stdio:npx ", "stdio:python -m ", "stdio:docker run ", "http://", "python:"]), st.text()
)
def test_whatever_is_derived_can_be_given(scheme: str, rest: str) -> None:
    try:
        found = parse_spec(scheme + rest)
    except Invalid:
        return
    assert parse_spec(f"{found.name}=python:a:b").named
