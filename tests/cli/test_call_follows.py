"""`manage.py call` while its hub goes away: the call goes on, and so does whoever waits for it. And hubs whose
certificate only a private authority vouches for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from taskhub.cli.management.commands import call
from tests.cli.shell import PATIENCE, Command, run
from tests.support.gate import gate
from tests.support.hub import RunningHub, wait_until
from tests.support.web import Web, web

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def door(hub: RunningHub) -> Iterator[Web]:
    """A web process that tests kill and start again."""
    with web(hub) as running:
        yield running


def started(hub: RunningHub, base: str, directory: Path, tool: str, *options: str) -> Command:
    """A call of a tool that waits for the file `directory / "file"`."""
    words = ("call", tool, f"path={directory / 'file'}", "--url", base, "--token", hub.tokens["agent-a"], *options)
    return Command(directory / "call", *words)


def tasks(hub: RunningHub, directory: Path) -> list[tuple[str, str]]:
    """Id and state of all tasks of such calls."""
    found = hub.sql("SELECT public_id, state FROM task WHERE arguments::text LIKE %s", [f"%{directory / 'file'}%"])
    return [(str(public_id), str(state)) for public_id, state in found]


@pytest.mark.parametrize(
    ("tool", "begun"), [("await_file", "waiting for file"), ("await_file_inline", "waiting for file")]
)
def test_a_call_follows_its_task_over_a_restart_of_web(
    hub: RunningHub, door: Web, tmp_path: Path, tool: str, begun: str
) -> None:
    with started(hub, door.base, tmp_path, tool) as command:
        wait_until(lambda: begun in command.err, "a call that has begun", PATIENCE)
        door.kill()
        wait_until(lambda: "The hub is away; trying again" in command.err, "words that the hub is away", PATIENCE)
        door.start()
        wait_until(lambda: tool != "await_file" or "The hub is back" in command.err, "the hub's return", PATIENCE)
        (tmp_path / "file").touch()
        assert command.outcome() == (0, "Found file\n"), command.err
        assert "The hub is back" in command.err
    assert [state for _, state in tasks(hub, tmp_path)] == ["finished"]


@pytest.mark.parametrize("tool", ["await_file", "await_file_inline"])
def test_a_call_whose_answer_was_lost_is_not_made_twice(hub: RunningHub, tmp_path: Path, tool: str) -> None:
    lost: list[bytes] = []

    def loses(request: bytes) -> bool:
        """The first call: it has arrived, and nobody hears."""
        if lost or b'"tools/call"' not in request:
            return False
        lost.append(request)
        wait_until(lambda: tasks(hub, tmp_path), "its task", PATIENCE)
        (tmp_path / "file").touch()
        return True

    with gate(hub.port, loses=loses) as way, started(hub, way.base, tmp_path, tool) as command:
        assert command.outcome() == (0, "Found file\n"), command.err
    assert lost
    assert [state for _, state in tasks(hub, tmp_path)] == ["finished"]


def test_ctrl_c_cancels_a_call_that_kept_its_caller_waiting(hub: RunningHub, tmp_path: Path) -> None:
    with started(hub, hub.base, tmp_path, "await_file_inline") as command:
        wait_until(lambda: "waiting for file" in command.err, "a call that has begun", PATIENCE)
        command.interrupt()
        assert command.outcome() == (3, "")
        assert "cancel requested" in command.err
    wait_until(lambda: [state for _, state in tasks(hub, tmp_path)] == ["cancelled"], "its end", PATIENCE)


@pytest.mark.parametrize("tool", ["await_file", "await_file_inline"])
def test_a_hub_that_stays_away_is_given_up_with_where_to_look(
    hub: RunningHub, door: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """In this process, with less patience; the hub goes away when the task is there."""
    monkeypatch.setattr(call, "AWAY_SECONDS", 1.0)
    wait_until(lambda: door.process.poll() is not None or door.ready(), "a web process", 60)
    said = call._say
    begun = False

    def say(console: call.Console, text: str) -> None:
        nonlocal begun
        said(console, text)
        if "waiting for file" in text and not begun:
            begun = True
            door.kill()

    monkeypatch.setattr(call, "_say", say)
    words = (f"path={tmp_path / 'file'}", "--url", door.base, "--token", hub.tokens["agent-a"])
    try:
        with pytest.raises(CommandError) as given_up:
            run("call", tool, *words)
        ((public_id, _),) = tasks(hub, tmp_path)
        text = str(given_up.value)
        assert re.match(rf"No contact with the hub for 1 s: Cannot reach {re.escape(door.base)}/mcp: ", text)
        assert text.endswith(
            f". Task {public_id} does not need this command: {door.base}/tasks/{public_id}/ shows its result."
        )
        assert "\n" not in text
        assert given_up.value.returncode == 2
    finally:
        (tmp_path / "file").touch()
        door.start()
        wait_until(door.ready, "a web process", 60)


# --- private authorities


def test_a_private_authority_is_trusted_when_it_is_named(hub: RunningHub, tmp_path: Path) -> None:
    words = ("call", "greet", "name=Ada", "--token", hub.tokens["agent-a"])
    with gate(hub.port, tmp_path) as way:
        named = (*words, "--url", way.base, "--ca", str(way.authority))
        variable = {"SSL_CERT_FILE": str(way.authority)}
        with (
            Command(tmp_path / "1", *named) as option,
            Command(tmp_path / "2", *words, "--url", way.base, environment=variable) as environment,
            Command(tmp_path / "3", *words, "--url", way.base) as neither,
        ):
            assert option.outcome() == (0, "Hello, Ada!\n"), option.err
            assert environment.outcome() == (0, "Hello, Ada!\n"), environment.err
            assert re.search(r"Cannot reach https://localhost:\d+/mcp: .*CERTIFICATE_VERIFY_FAILED", neither.refusal())


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file or directory"), ("no certificate", ".*")],
)
def test_a_file_without_certificates_is_refused_by_name(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CommandError, match=f"^No certificates can be read from {file}: {why}"):
        run("call", "greet", "--url", "https://localhost:1/mcp", "--token", "x", "--ca", str(file))
