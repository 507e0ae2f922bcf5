"""The `mcp.json` of programs, read as they write it; what cannot be kept is refused in words that name the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.mcp_json import MAX_FILE, FileServer, Placeholder, read_mcp_json, servers_of
from taskhub.domain.catalogue.spec import command_of, parse_spec

CLAUDE_DESKTOP = """{
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/My Documents"]
    },
    "brave-search": {"command": "npx", "args": ["-y", "x"], "env": {"BRAVE_API_KEY": "sw0rd fish"}}
  }
}"""
CLAUDE_CODE = """{
  "mcpServers": {
    "api": {
      "type": "http",
      "url": "${API_BASE_URL:-https://api.example.com}/mcp",
      "headers": {"Authorization": "Bearer ${API_KEY}"}
    },
    "local": {"type": "stdio", "command": "${HOME}/bin/server", "args": [], "env": {}}
  }
}"""
VS_CODE = """{
  // what VS Code writes, with comments
  "inputs": [
    {"type": "promptString", "id": "token", "description": "GitHub token", "password": true},
    {"type": "promptString", "id": "root", "description": "Where", "password": false}
  ],
  "servers": {
    "Fetch it": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch", "${input:root}"], "dev": {}},
    "github": {
      "type": "http", /* remote */
      "url": "https://api.githubcopilot.com/mcp/", // not a comment: "//"
      "headers": {"Authorization": "Bearer ${input:token}"},
    },
  },
}"""
CURSOR = """{
  "mcpServers": {
    "mine": {"command": "python", "args": ["mcp-server.py"], "env": {"API_KEY": "${env:MY_KEY}"}},
    "remote": {"url": "http://localhost:3000/mcp", "headers": {"authorization": "${env:AUTH}"}, "disabled": true},
    "other": {"url": "http://localhost:3000/mcp", "headers": {"authorization": "${env:AUTH}"}}
  }
}"""
GEMINI = '{"mcpServers": {"http": {"httpUrl": "https://example.com/mcp", "timeout": 5000, "trust": false}}}'
SETTINGS = '{"mcp": {"servers": {"inside": {"command": "x"}}}, "editor.fontSize": 12}'


def read(text: str, **values: str) -> list[FileServer]:
    return list(servers_of(read_mcp_json(text), values))


def one(**entry: Any) -> str:
    return json.dumps({"mcpServers": {"acme": entry}})


def test_claude_desktop() -> None:
    files, brave = read(CLAUDE_DESKTOP)
    npx = "stdio:npx -y @modelcontextprotocol/server-filesystem '/home/ada/My Documents'"
    assert files == FileServer("filesystem", npx)
    spec = parse_spec(f"x={brave.spec}")
    assert command_of(spec.target) == ({"BRAVE_API_KEY": "sw0rd fish"}, ["npx", "-y", "x"])
    assert "sw0rd" not in repr(brave)


def test_claude_code() -> None:
    file = read_mcp_json(CLAUDE_CODE)
    assert [asked.key for asked in file.placeholders] == ["API_BASE_URL", "API_KEY", "HOME"]
    values = {"API_BASE_URL": "https://a.example", "API_KEY": "t0ken", "HOME": "/home/ada"}
    assert list(servers_of(file, values)) == [
        FileServer("api", "https://a.example/mcp", token="t0ken"),
        FileServer("local", "stdio:/home/ada/bin/server"),
    ]
    shown = servers_of(file, None)
    assert shown[0].spec == "${API_BASE_URL:-https://api.example.com}/mcp"


def test_vs_code_with_comments_and_inputs() -> None:
    file = read_mcp_json(VS_CODE)
    assert file.placeholders == (
        Placeholder("input:root", "Where", hidden=False),
        Placeholder("input:token", "GitHub token"),
    )
    assert list(servers_of(file, {"input:root": "/srv", "input:token": "t0ken"})) == [
        FileServer("Fetch-it", "stdio:uvx mcp-server-fetch /srv", ignored=("dev",)),
        FileServer("github", "https://api.githubcopilot.com/mcp/", token="t0ken"),
    ]


def test_cursor() -> None:
    file = read_mcp_json(CURSOR)
    assert file.disabled == ("remote",)
    assert list(servers_of(file, {"MY_KEY": "k", "AUTH": "Bearer t0ken"})) == [
        FileServer("mine", "stdio:env API_KEY=k python mcp-server.py"),
        FileServer("other", "http://localhost:3000/mcp", token="t0ken"),
    ]
    assert servers_of(file, None)[1].token == "${env:AUTH}"


def test_others() -> None:
    assert read(GEMINI) == [FileServer("http", "https://example.com/mcp", ignored=("timeout", "trust"))]
    assert read(SETTINGS) == [FileServer("inside", "stdio:x")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", r"The file is no JSON \(line 1\)"),
        ("[" * 100_000, "The file is no JSON"),
        ("[]", "The file has no servers"),
        ('{"mcpServers": {}}', "The file has no servers"),
        (" " * (MAX_FILE + 1), "larger than"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "has 'a' twice"),
        ('{"servers": {"a b": {"command": "x"}, "a-b": {"command": "y"}}}', "two servers named a-b"),
        ('{"servers": {"a": {"command": "x"}}, "mcpServers": {"a": {"command": "x"}}}', "two servers named a"),
        ('{"servers": {"a": "x"}}', "a: a server is an object"),
        (one(), "acme: expected either"),
        (one(command="x", url="https://x"), "acme: expected either"),
        (one(type="sse", url="https://x/sse"), "acme: HTTP with SSE"),
        (one(type="ws", url="wss://x"), "acme: expected the type"),
        (one(type=["http"], url="https://x"), "acme: expected the type"),
        (one(type="http", command="x"), "acme: its type is http, but it has no url"),
        (one(command="x", cwd="/srv"), "acme: a working directory cannot be kept"),
        (one(command="x", envFile=".env"), "acme: a file of variables is not read"),
        (one(command=" "), "acme: its command is no text"),
        (one(command="x", args="y"), "acme: its args are no list"),
        (one(command="x", args=[["y"]]), "acme: its args are no list"),
        (one(command="x", env=["A=b"]), "acme: its env is no object"),
        (one(command="x", env={"A B": "c"}), "acme: 'A B' is no name of a variable"),
        (one(command="x", env={"A": "b\nc"}), "acme: A server is given as one line"),
        (one(url=5), "acme: its url is no text"),
        (one(url="ftp://x"), "acme: its url begins with"),
        (one(url="https://"), "acme: Expected a full URL"),
        (one(url="https://x", headers={"X-Api-Key": "sw0rdfish"}), "acme: the header X-Api-Key cannot be kept"),
        (one(url="https://x", headers={"Authorization": "Basic sw0rdfish"}), "acme: of `Authorization` only"),
        (one(url="https://x", headers={"Authorization": "Bearer "}), "acme: of `Authorization` only"),
        (one(url="https://x", headers=["a"]), "acme: its headers are no object"),
    ],
)
def test_what_cannot_be_kept_is_refused(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        read(text)
    assert "sw0rdfish" not in refused.value.message


def test_a_value_is_put_in_once_and_is_no_placeholder_itself() -> None:
    (server,) = read(one(command="x", args=["${A}", "${A}"]), A="${B} 'c'")
    assert parse_spec(server.spec).target == "x '${B} '\"'\"'c'\"'\"'' '${B} '\"'\"'c'\"'\"''"
