"""`manage.py up` where it cannot run: one clear line, a non-zero exit, nothing started."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from tests.cli.shell import Command
from tests.support.hub import RunningHub


def test_a_taken_port_is_refused_before_anything_is_made(
    refused: dict[str, Command], place: Path, silent_port: int
) -> None:
    assert refused["port"].refusal() == (
        f"CommandError: Cannot listen on 127.0.0.1:{silent_port}: Address already in use. Choose another --port."
    )
    assert not (place / "unused").exists()


def test_a_data_directory_that_cannot_be_written_is_refused(refused: dict[str, Command], place: Path) -> None:
    assert refused["data"].refusal() == (
        f"CommandError: Cannot write to the data directory {place}/file/data: Not a directory"
    )


def test_a_database_that_is_away_is_refused_without_its_password(refused: dict[str, Command], place: Path) -> None:
    line = refused["database"].refusal()
    assert line.startswith("CommandError: The database of DATABASE_URL is away: ")
    assert line.endswith("Connection refused")
    assert "correct-horse" not in line
    # Nobody was told of sign-ins that do not exist.
    assert not (place / "kept" / "credentials.json").exists()


@pytest.mark.parametrize("number", ["0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(CommandError, match=rf"^--port is a number from 1 to 65535, not {number}\.$"):
        call_command("up", f"--port={number}")


@pytest.mark.parametrize("number", ["0", "65", "-3"])
def test_so_many_workers_are_refused(number: str) -> None:
    with pytest.raises(CommandError, match=rf"^--workers is a number from 1 to 64, not {number}\.$"):
        call_command("up", f"--workers={number}")


@pytest.mark.parametrize(("named", "said"), [(("foo", "2026-07-28"), "foo"), ((), "nothing")])
def test_revisions_that_there_are_not_are_refused(settings: Settings, named: tuple[str, ...], said: str) -> None:
    settings.TASKHUB_REVISIONS = named
    with pytest.raises(CommandError, match=f"^TASKHUB_REVISIONS names {said}; there are: .*2025-11-25"):
        call_command("up")


@pytest.mark.parametrize("spec", ["nonsense", "python:nowhere", "name="])
def test_a_server_that_cannot_be_read_is_refused(spec: str) -> None:
    with pytest.raises(CommandError, match=r"^--server: Expected python:package\.module:object"):
        call_command("up", "--server", spec)


@pytest.mark.processes
def test_a_derived_name_that_another_server_has_is_refused(hub: RunningHub, tmp_path: Path, free_port: int) -> None:
    def there() -> list[tuple[object, ...]]:
        return hub.sql("SELECT name, transport, target FROM server ORDER BY id")

    before = there()
    arguments = ("--port", str(free_port), "--data-dir", str(tmp_path / "data"), "--no-demo")
    servers = ("--server", "stdio:never-kept", "--server", "python:elsewhere.fixture_server:other")
    with Command(tmp_path, "up", *arguments, *servers, environment=hub.environment) as command:
        assert command.code() == 1
        assert command.err == (
            "CommandError: --server: There is a server named fixture-server already, "
            "python:tests.conformance.fixture_server:server. Write NAME=SPEC with another name.\n"
        )
    assert there() == before


@pytest.mark.processes
def test_one_directory_has_one_up(hub: RunningHub, tmp_path: Path) -> None:
    """Also where the port is the first one's, as when somebody types the same command again."""
    before = (hub.data / "credentials.json").read_bytes()
    arguments = ("--port", str(hub.port), "--data-dir", str(hub.data), "--no-demo")
    with Command(tmp_path, "up", *arguments, environment=hub.environment) as command:
        refused = command.refusal()
    assert refused == (
        f"CommandError: A TaskHub of the data directory {hub.data} runs already at {hub.base} "
        f"(process {hub.process.pid}). For one more, choose another --data-dir and another --port."
    )
    assert (hub.data / "credentials.json").read_bytes() == before


def test_two_servers_of_one_name_are_refused_before_anything_starts() -> None:
    with pytest.raises(CommandError, match=r"^--server: two servers are named time\. Write NAME=SPEC with"):
        call_command("up", "--server", "stdio:uvx mcp-server-time", "--server", "time=https://time.example/mcp")


def test_a_file_of_servers_that_cannot_be_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    for text, said in (
        ("{", "The file is no JSON"),
        ('{"mcpServers": {"a": {"command": "x", "envFile": "/"}}}', "mcp.json: a: a file of variables"),
        ('{"mcpServers": {"a": {"command": "${X}"}}}', "Values are needed for X"),
        ('{"mcpServers": {"a": {"command": "x"}}}', "--server and --mcp-json both name a server a"),
    ):
        path.write_text(text)
        with pytest.raises(CommandError, match=said):
            call_command("up", "--mcp-json", str(path), "--server", "a=stdio:x")
