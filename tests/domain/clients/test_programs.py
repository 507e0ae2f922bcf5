"""What the pages say to paste: a snippet is read as its program would, and has endpoint and token where they count."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import pytest
import yaml

from taskhub.config import settings
from taskhub.domain.clients.patience import KNOWN
from taskhub.domain.clients.programs import GROUPS, Program, grouped, programs

URL: Final = "https://hub.example.com/mcp"
TOKEN: Final = "th_0123456789"
BEARER: Final = f"Bearer {TOKEN}"
READERS: Final[dict[str, Callable[[str], Any]]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}
PLACES: Final[dict[str, dict[str, Any]]] = {
    "codex": {
        "mcp_servers.taskhub.url": URL,
        "mcp_servers.taskhub.http_headers": {"Authorization": BEARER},
        "mcp_servers.taskhub.tool_timeout_sec": 300,
    },
    "gemini-cli": {
        "mcpServers.taskhub.httpUrl": URL,
        "mcpServers.taskhub.headers": {"Authorization": BEARER},
        "mcpServers.taskhub.timeout": 600_000,
    },
    "vscode": {
        "servers.taskhub": {"type": "http", "url": URL, "headers": {"Authorization": BEARER}},
    },
    "cursor": {
        "mcpServers.taskhub": {"url": URL, "headers": {"Authorization": BEARER}},
    },
    "goose": {
        "extensions.taskhub.type": "streamable_http",
        "extensions.taskhub.name": "taskhub",
        "extensions.taskhub.enabled": True,
        "extensions.taskhub.uri": URL,
        "extensions.taskhub.headers": {"Authorization": BEARER},
        "extensions.taskhub.timeout": 300,
    },
    "zed": {
        "context_servers.taskhub": {"url": URL, "headers": {"Authorization": BEARER}, "timeout": 60},
    },
    "opencode": {
        "mcp.servers.taskhub": {
            "type": "remote",
            "url": URL,
            "headers": {"Authorization": BEARER},
            "timeout": {"execution": 300_000},
        },
    },
}
"""Where each program looks, by the pages that `programs.toml` names."""
COMMANDS: Final = {
    "claude-code": ["claude", "mcp", "add", "--transport", "http", "taskhub", URL],
    "inspector": ["npx", "-y", "@modelcontextprotocol/inspector@2.12.0", "--cli", URL, "--transport", "http"],
}
"""How a command begins; the header follows."""

each = pytest.mark.parametrize("program", programs(), ids=lambda program: program.key)


def of(language: str) -> Any:
    found = [program for program in programs() if program.language == language]
    return pytest.mark.parametrize("program", found, ids=lambda program: program.key)


def test_each_program_has_a_key_a_title_and_a_group_of_its_own() -> None:
    assert len({program.key for program in programs()}) == len({program.title for program in programs()}) == 22
    assert [title for title, of_group in grouped() if of_group] == list(GROUPS.values())
    assert all(re.fullmatch(r"[a-z-]+", program.key) for program in programs())


@each
def test_endpoint_and_token_stand_once_and_nothing_else_is_left_to_fill_in(program: Program) -> None:
    filled = program.filled(URL, TOKEN)
    assert (filled.count(URL), filled.count(TOKEN)) == (1, 1)
    assert set(re.findall(r"\$\w+", filled)) <= {"$schema"}


@each
def test_a_snippet_fits_the_page(program: Program) -> None:
    assert max(map(len, program.filled().splitlines())) <= 110


@pytest.mark.parametrize("key", PLACES)
def test_a_file_has_endpoint_token_and_time_out_where_its_program_looks(key: str) -> None:
    (program,) = (program for program in programs() if program.key == key)
    read = READERS[program.language](program.filled(URL, TOKEN))
    found = {path: reduce(lambda value, name: value[name], path.split("."), read) for path in PLACES[key]}
    assert found == PLACES[key]


def test_each_file_is_looked_at() -> None:
    assert set(PLACES) == {program.key for program in programs() if program.language in READERS}


@of("shell")
def test_a_command_hands_on_endpoint_and_header(program: Program) -> None:
    words = shlex.split(program.filled(URL, TOKEN).replace("\\\n", ""))
    begins = COMMANDS[program.key]
    assert words[: len(begins)] == begins
    assert words[words.index("--header") + 1] == f"Authorization: {BEARER}"


@of("python")
def test_python_gets_the_header_and_the_time_out(program: Program) -> None:
    constants = [
        node.value for node in ast.walk(ast.parse(program.filled(URL, TOKEN))) if isinstance(node, ast.Constant)
    ]
    assert URL in constants
    assert BEARER in constants or (program.key == "fastmcp" and TOKEN in constants)
    assert program.key == "strands" or program.seconds in constants


@of("javascript")
def test_javascript_gets_the_header_and_the_time_out(program: Program) -> None:
    filled = program.filled(URL, TOKEN)
    assert f'url: "{URL}"' in filled
    assert f'headers: {{ Authorization: "{BEARER}" }}' in filled
    assert program.seconds is None or f"imeout: {program.seconds:g}_000" in filled


@each
def test_the_time_out_is_longer_than_the_hub_lets_its_caller_wait(program: Program) -> None:
    patience = KNOWN[program.client_info] if program.client_info else settings.TASKHUB_PATIENCE_SECONDS
    if patience is None or program.seconds is None:
        return
    assert patience < program.seconds
    if f"{patience:g} s" not in program.long_calls:
        assert program.key == "inspector"


def test_what_is_told_of_a_known_program_is_told_of_one_that_counts() -> None:
    named = {program.client_info for program in programs() if program.group == "programs"}
    assert named == set(KNOWN) - {"claude-ai"}  # which takes no token
