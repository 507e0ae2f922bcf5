"""The `mcp.json` of programs, read as they write it; what cannot be kept is refused in words that name the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.mcp_json import read_mcp_json
from taskhub.domain.catalogue.server_files import MAX_FILE, FileServer, Placeholder, servers_of
from taskhub.domain.catalogue.spec import parse_spec

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
WINDSURF = """{
  "mcpServers": {
    "figma": {
      "serverUrl": "https://mcp.example.com/mcp", "headers": {"X-Figma-Token": "${env:KEY}"}, "disabledTools": ["a"]
    },
    "later": {"command": "x", "disabled": true}
  }
}"""
ZED = """{
  "context_servers": {
    "old": {"command": {"path": "node", "args": ["index.js"], "env": {"A": "b"}}, "settings": {}},
    "new": {"source": "custom", "command": "uvx", "args": ["mcp-server-time"], "cwd": "/srv/notes"}
  }
}"""
SETTINGS = '{"mcp": {"servers": {"inside": {"command": "x"}}}, "editor.fontSize": 12}'


def read(text: str, **values: str) -> list[FileServer]:
    return list(servers_of(read_mcp_json(text), values))


def one(**entry: Any) -> str:
    return json.dumps({"mcpServers": {"acme": entry}})


def test_claude_desktop() -> None:
    files, brave = read(CLAUDE_DESKTOP)
    npx = "stdio:npx -y @modelcontextprotocol/server-filesystem '/home/ada/My Documents'"
    assert files == FileServer("filesystem", npx)
    assert (brave.spec, brave.environment) == ("stdio:npx -y x", {"BRAVE_API_KEY": "sw0rd fish"})
    assert brave.taken == ("BRAVE_API_KEY",), "what stands in the file itself is told"
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
        Placeholder("input:token", "GitHub token", secret=True),
    )
    assert list(servers_of(file, {"input:root": "/srv", "input:token": "t0ken"})) == [
        FileServer("Fetch-it", "stdio:uvx mcp-server-fetch /srv", ignored=("dev",)),
        FileServer("github", "https://api.githubcopilot.com/mcp/", token="t0ken"),
    ]


def test_a_trailing_comma_may_be_followed_by_a_comment() -> None:
    text = '{"servers": {"a": {"command": "x", "args": ["a,//b"]}, // the last one\n /* but for\n this */ }}'
    assert read(text) == [FileServer("a", "stdio:x a,//b")]
    with pytest.raises(Invalid, match=r"The file is no JSON \(line 4\)"):
        read('{"servers": {\n/* one\n two */\n"a": }}')


@pytest.mark.parametrize(
    ("entry", "fine"),
    [
        ({"command": "x", "args": ["--pw", "${input:pw}"]}, False),
        ({"url": "https://a.example/mcp?x=${input:pw}"}, False),
        ({"command": "x", "args": ["--token=${input:pw}"]}, True),
        ({"command": "x", "env": {"ANY": "${input:pw}"}}, True),
    ],
)
def test_what_the_file_calls_a_secret_stands_nowhere_where_it_is_shown(entry: dict[str, Any], fine: bool) -> None:
    inputs = [{"id": "pw", "type": "promptString", "password": True}]
    file = read_mcp_json(json.dumps({"servers": {"a": entry}, "inputs": inputs}))
    values = {"input:pw": "s3cret-of-ours"}
    if fine:
        (server,) = servers_of(file, values)
        assert "s3cret-of-ours" not in server.shown_target
        return
    with pytest.raises(Invalid, match="a: the secret input:pw would stand in its command or address") as error:
        servers_of(file, values)
    assert "s3cret-of-ours" not in error.value.message


def test_a_value_is_passed_on_as_other_programs_do_and_what_is_none_is_named() -> None:
    assert read('{"mcpServers": {"a": {"command": "x", "args": [true, 1], "env": {"A": false}}}}') == [
        FileServer("a", "stdio:x true 1", environment={"A": "false"}, taken=("A",))
    ]
    with pytest.raises(Invalid, match="a: in its `env`, B is no text"):
        read('{"mcpServers": {"a": {"command": "x", "env": {"A": "1", "B": []}}}}')


def test_cursor() -> None:
    file = read_mcp_json(CURSOR)
    assert file.disabled == ("remote",)
    assert list(servers_of(file, {"MY_KEY": "k", "AUTH": "Bearer t0ken"})) == [
        FileServer("mine", "stdio:python mcp-server.py", environment={"API_KEY": "k"}),
        FileServer("other", "http://localhost:3000/mcp", token="t0ken"),
    ]
    assert servers_of(file, None)[1].token == "${env:AUTH}"


def test_windsurf() -> None:
    file = read_mcp_json(WINDSURF)
    assert file.disabled == ("later",)
    (figma,) = servers_of(file, {"KEY": "k3y"})
    assert figma == FileServer(
        "figma", "https://mcp.example.com/mcp", headers={"X-Figma-Token": "k3y"}, ignored=("disabledTools",)
    )


def test_zed_in_both_of_its_forms() -> None:
    assert read(ZED) == [
        FileServer("old", "stdio:node index.js", environment={"A": "b"}, taken=("A",), ignored=("settings",)),
        FileServer("new", "stdio:uvx mcp-server-time", directory="/srv/notes"),
    ]


def test_headers_are_kept_and_a_bearer_is_the_token() -> None:
    (server,) = read(one(url="https://x/mcp", headers={"Authorization": "Bearer t0ken", "X-Org": "acme"}))
    assert (server.token, server.headers, server.taken) == ("t0ken", {"X-Org": "acme"}, ("Authorization", "X-Org"))
    (server,) = read(one(url="https://x/mcp", headers={"Authorization": "Basic YTpi"}))
    assert (server.token, server.headers) == ("", {"Authorization": "Basic YTpi"})


def test_a_secret_in_an_argument_or_an_address_is_taken_from_the_file_too() -> None:
    assert read(one(command="x", args=["--api-key", "sw0rdfish"]))[0].taken == ("its command",)
    assert read(one(url="https://x/mcp?api_key=sw0rdfish"))[0].taken == ("its address",)
    assert read(one(command="x", args=["--api-key", "${KEY}"]), KEY="k")[0].taken == ()


def test_a_variable_may_have_lines() -> None:
    (server,) = read(one(command="x", env={"PEM": "a\nb"}))
    assert server.environment == {"PEM": "a\nb"}


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
        (one(type="ws", url="wss://x"), "acme: expected the type"),
        (one(type=["http"], url="https://x"), "acme: expected the type"),
        (one(type="http", command="x"), "acme: its type is http, but it has no url"),
        (one(command="x", cwd="srv"), "acme: A working directory is a full path"),
        (one(command="x", cwd=5), "acme: its cwd is no text"),
        (one(command="x", envFile=".env"), "acme: a file of variables is not read"),
        (one(command=" "), "acme: its command is no text"),
        (one(command="x", args="y"), "acme: its args are no list"),
        (one(command="x", args=[["y"]]), "acme: its args are no list"),
        (one(command="x", env=["A=b"]), "acme: its `env` is no object"),
        (one(command="x", env={"A B": "c"}), "acme: 'A B' is no name of a variable"),
        (one(command="x", env={"A": "b\0"}), "acme: The value of the variable A is text without"),
        (one(command="x", args=["b\nc"]), "acme: Argument 1 of the command has U.000A"),
        (one(url=5), "acme: its url is no text"),
        (one(url="ftp://x"), "acme: its url begins with"),
        (one(url="https://"), "acme: Expected a full URL"),
        (one(url="https://x", headers={"X-Api-Key": "sw0rd\nfish"}), "acme: The value of the header X-Api-Key has"),
        (one(url="https://x", headers={"Host": "sw0rdfish"}), "acme: The header Host is set by TaskHub itself"),
        (one(url="https://x", headers={"Mcp-Session-Id": "x"}), "acme: The header Mcp-Session-Id is set by"),
        (one(url="https://x", headers={"a b": "x"}), "acme: 'a b' is no name of a header"),
        (one(url="https://x", headers={"X-a": "x", "x-A": "y"}), "acme: The header x-A is given twice"),
        (one(url="https://x", headers={"Authorization": "Bearer "}), "acme: after `Bearer` in Authorization"),
        (one(url="https://x", headers=["a"]), "acme: its `headers` is no object"),
    ],
)
def test_what_cannot_be_kept_is_refused(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        read(text)
    assert "sw0rdfish" not in refused.value.message


def test_a_value_is_put_in_once_and_is_no_placeholder_itself() -> None:
    (server,) = read(one(command="x", args=["${A}", "${A}"]), A="${B} 'c'")
    assert parse_spec(server.spec).target == "x '${B} '\"'\"'c'\"'\"'' '${B} '\"'\"'c'\"'\"''"
