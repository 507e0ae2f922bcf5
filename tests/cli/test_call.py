"""`manage.py call`: what a person at a shell sees of a tool call, and what a script gets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from taskhub.cli.management.commands.call import endpoint, parsed_arguments
from taskhub.cli.management.commands.up import first_call
from tests.cli.shell import CONTROL, PATIENCE, Command, Terminal, run
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

CALLS = {
    "text": ("greet", "name=@{file}"),
    "typed": ("slow_compute", "seconds=0.6", "label=007"),
    "tool error": ("failing_job",),
    "failed": ("protocol_error_job",),
    "unknown tool": ("no_such_tool",),
}
"""Calls that end without anybody's help."""


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    """Where the call `in a terminal` draws."""
    made = Terminal()
    yield made
    made.close()


@pytest.fixture(scope="module")
def calls(
    refused: dict[str, Command], hub: RunningHub, terminal: Terminal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Command]]:
    """All of `CALLS` and three more, at once: each takes a second only to start. (`refused` is asked
    for first, so that those commands start while the hub does.)"""
    directory = tmp_path_factory.mktemp("calls")
    file = directory / "name"
    file.write_text("Ada = Countess")
    to_hub = ("--url", f"{hub.base}/mcp", "--token", hub.tokens["agent-a"])
    # Told neither address nor token, the command finds both where `up` leaves them.
    found = ("--data-dir", str(hub.data))
    # A token in the environment goes before that.
    wrong = {"TASKHUB_TOKEN": "thub_of_somebody_else"}
    waits = ("call", "confirm_delete", "filename=a.txt", *found)
    draws = ("call", "slow_compute", "seconds=600", *found)
    with ExitStack() as running:
        started = {
            "waits for people": Command(directory / "waits", *waits),
            "in a terminal": Command(directory / "draws", *draws, terminal=terminal),
            "bad token": Command(directory / "token", "call", "greet", "name=x", *found, environment=wrong),
        }
        for name, words in CALLS.items():
            started[name] = Command(directory / name, "call", *(word.format(file=file) for word in words), *to_hub)
        for command in started.values():
            running.enter_context(command)
        yield started


# --- results and exit codes


def test_a_tools_text_is_all_that_is_on_stdout(calls: dict[str, Command]) -> None:
    assert calls["text"].outcome() == (0, "Hello, Ada = Countess!\n")
    assert calls["text"].err == ""


def test_arguments_arrive_as_the_schema_types_them_and_a_task_ends_with_its_text(
    hub: RunningHub, calls: dict[str, Command]
) -> None:
    assert calls["typed"].outcome() == (0, "Computed 007 in 0.6 s\n")
    task_id, *_, last = calls["typed"].err.splitlines()
    assert last.split() == ["completed", "completed"]
    stored = hub.sql("SELECT arguments FROM task WHERE public_id = %s", [task_id.removeprefix("task ")])
    assert stored == [({"seconds": 0.6, "label": "007"},)]


def test_a_tools_own_error_is_its_text_and_exit_1(calls: dict[str, Command]) -> None:
    assert calls["tool error"].outcome() == (1, "This job failed on purpose\n")


def test_a_failed_task_says_why_on_stderr_and_exits_2(calls: dict[str, Command]) -> None:
    assert calls["failed"].outcome() == (2, "")
    *_, last = calls["failed"].err.splitlines()
    assert last == "failed: This job met a protocol error on purpose (-32603)"


@pytest.mark.parametrize("name", CALLS)
def test_without_a_terminal_there_are_no_control_characters_and_no_bar(calls: dict[str, Command], name: str) -> None:
    calls[name].code()
    assert not CONTROL.search(calls[name].out + calls[name].err)
    assert "━" not in calls[name].err


# --- what cannot be called


def test_an_unknown_tool_is_refused_with_the_names_of_those_there_are(calls: dict[str, Command]) -> None:
    start, _, names = calls["unknown tool"].refusal().partition(" There are: ")
    assert start == "CommandError: There is no tool 'no_such_tool'."
    # Of both servers, the first and the last that are listed.
    assert {"test_simple_text", "greet", "wrong_question"} <= set(names.split(", "))


def test_an_address_where_nobody_answers_is_one_clear_line(silent_port: int) -> None:
    url = f"http://127.0.0.1:{silent_port}/mcp"
    with pytest.raises(CommandError, match=f"^Cannot reach {url}: .*Connection refused") as refused:
        run("call", "greet", "--url", url, "--token", "x")
    assert refused.value.returncode == 1
    assert re.search(
        r"\. Is a hub running there\? `.*manage\.py up` starts one; --url names another\.$", str(refused.value)
    )


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("http://h:8000", "http://h:8000/mcp"),
        ("http://h:8000/", "http://h:8000/mcp"),
        ("http://h:8000/mcp", "http://h:8000/mcp"),
        ("https://h/mcp/sep-2557", "https://h/mcp/sep-2557"),
        ("https://h/hub/mcp", "https://h/hub/mcp"),
    ],
)
def test_the_address_of_the_hub_is_enough(given: str, called: str) -> None:
    assert endpoint(given) == called


def test_a_bad_token_is_refused_in_the_hubs_own_words(calls: dict[str, Command]) -> None:
    """It was told only the data directory, so this is also how the running hub is found."""
    assert calls["bad token"].refusal() == "CommandError: A valid bearer token is required (-32600)"
    assert calls["bad token"].code() == 2


def test_without_a_token_it_says_where_one_was_looked_for(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    monkeypatch.delenv("TASKHUB_TOKEN", raising=False)
    with pytest.raises(CommandError, match=f"^No token was found in {tmp_path}. Give --data-dir, as to `up`"):
        run("call", "greet")


def test_the_call_that_up_proposes_finds_its_token(hub: RunningHub, tmp_path: Path) -> None:
    """Another terminal knows nothing of the data directory that `up` was given."""
    words = shlex.split(first_call(hub.base, hub.data))
    with Command(tmp_path, *words) as command:
        # This hub has no demo; whoever has no token is refused before that.
        assert command.refusal().startswith("CommandError: There is no tool 'deploy'.")
    assert first_call("http://127.0.0.1:8000", Path(".taskhub").resolve()) == (
        "call deploy service=web version=1.4.2 environment=production"
    )


# --- people and terminals


def task_in(text: str) -> str | None:
    """The id of the task, once it was written whole."""
    found = re.search(r"^task (\S+)\r?\n", text, re.MULTILINE)
    return found and found[1]


def test_a_task_that_waits_for_people_names_the_inbox_and_cancelled_elsewhere_exits_3(
    hub: RunningHub, alice: Client, calls: dict[str, Command]
) -> None:
    command = calls["waits for people"]
    wait_until(lambda: f"  ->  {hub.base}/inbox/\n" in command.err, "the inbox's address", PATIENCE)
    assert "Waiting for an answer" in command.err
    task_id = task_in(command.err)
    assert task_id is not None
    alice.cancel(task_id)
    assert command.outcome() == (3, "")
    assert command.err.splitlines()[-1].split()[0] == "cancelled"
    assert not CONTROL.search(command.err)


def test_in_a_terminal_a_bar_follows_the_progress_and_ctrl_c_cancels_the_task(
    alice: Client, calls: dict[str, Command], terminal: Terminal
) -> None:
    def numbers() -> set[str]:
        return set(re.findall(r"(\S+) of 600 ", terminal.text()))

    wait_until(lambda: len(numbers()) > 1, "a bar whose numbers change", PATIENCE)
    assert "━" in terminal.text()
    calls["in a terminal"].interrupt()
    assert calls["in a terminal"].outcome() == (3, "")
    text = terminal.text()
    assert "cancel requested" in text
    assert "Traceback" not in text
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert -1 < text.rfind(hidden) < text.rfind(shown), "the cursor is left hidden"
    task_id = task_in(text)
    assert task_id is not None
    assert alice.until(task_id, "completed", "failed", "cancelled")["status"] == "cancelled"


# --- key=value

SCHEMA: dict[str, Any] = {
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "sure": {"type": "boolean"},
        "tags": {"type": "array"},
        "place": {"type": "object"},
        "open": {},
    }
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=hello", "hello"),
        ("text=", ""),
        ("text=12", "12"),
        ("text=a=b", "a=b"),
        ("count=-12", -12),
        ("ratio=0.5", 0.5),
        ("ratio=2", 2.0),
        ("sure=true", True),
        ("sure=false", False),
        ('tags=["a", 1]', ["a", 1]),
        ('place={"x": null}', {"x": None}),
        ("open=1", "1"),
        ("unknown=1", "1"),
        # as JSON, whatever the schema says
        ("text:=12", 12),
        ("unknown:=[true]", [True]),
        ('text:="@home"', "@home"),
        ("count:=null", None),
    ],
)
def test_a_word_becomes_the_value_its_schema_wants(word: str, value: object) -> None:
    ((name, found),) = parsed_arguments([word], SCHEMA).items()
    assert name == re.split(r":?=", word)[0]
    assert (found, type(found)) == (value, type(value))


def test_several_words_become_several_arguments_and_none_become_none() -> None:
    assert parsed_arguments(["count=1", "text=x"], SCHEMA) == {"count": 1, "text": "x"}
    assert parsed_arguments([], SCHEMA) == {}
    assert parsed_arguments(["count=1"], {}) == {"count": "1"}


def test_a_file_gives_its_text_typed_like_any_other(tmp_path: Path) -> None:
    text, count, tags = tmp_path / "text", tmp_path / "count", tmp_path / "tags"
    text.write_text("@first\nsecond = ü\n")
    count.write_text("12\n")
    tags.write_text('["a"]\n')
    found = parsed_arguments([f"text=@{text}", f"count=@{count}", f"tags=@{tags}"], SCHEMA)
    assert found == {"text": "@first\nsecond = ü\n", "count": 12, "tags": ["a"]}


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("text", "key=value expected, not 'text'"),
        ("=x", "key=value expected, not '=x'"),
        ("count=1.5", "count must be a number, not '1.5'"),
        ("count=", "count must be a number, not ''"),
        ("ratio=half", "ratio must be a number, not 'half'"),
        ("sure=True", "sure must be true or false, not 'True'"),
        ("sure=1", "sure must be true or false, not '1'"),
        ("tags=a,b", "tags needs JSON: "),
        ("place=here", "place needs JSON: "),
        ("text:=hello", "text:= needs JSON: "),
        ("text:=", "text:= needs JSON: "),
    ],
)
def test_a_word_that_fits_nothing_is_refused_by_name(word: str, why: str) -> None:
    with pytest.raises(CommandError) as refused:
        parsed_arguments(["text=good", word], SCHEMA)
    assert str(refused.value).startswith(why)


def test_a_directory_is_no_file_to_send(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        parsed_arguments([f"text=@{tmp_path}"], SCHEMA)
    assert str(refused.value) == f"Cannot read {tmp_path}: Is a directory"
