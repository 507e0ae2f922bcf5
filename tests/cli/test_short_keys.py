"""A key that is too short starts nothing: one line that names where it is from, and an exit code."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.shell import Command

SHORT = "x" * 31
COMMANDS = {
    "up": ("up", "--no-demo"),
    "web": ("web",),
    "worker": ("worker",),
    "doctor": ("doctor",),
    "verify": ("audit", "verify"),
    "migrate": ("migrate",),
}


def wanted(where: str, characters: int) -> str:
    return f"taskhub: {where} has {characters} characters, and needs at least 32: openssl rand -hex 32 makes one"


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_command_starts_with_a_short_key(tmp_path: Path, words: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    known = {"SECRET_KEY": SHORT, "TASKHUB_DATA_DIR": str(data)}
    with Command(tmp_path / "run", *words, environment=known) as command:
        assert command.refusal() == wanted("SECRET_KEY", 31)
    assert not data.exists()


def test_wherever_it_is_from(tmp_path: Path) -> None:
    short, empty, odd, data = (tmp_path / name for name in ("short", "empty", "odd", "data"))
    odd.write_bytes(b"\xff" * 40)
    data.mkdir()
    short.write_text(f"{SHORT}\n")
    empty.write_text("\n")
    (data / "secret_key").write_text("")  # as after a full disk
    cases = {
        wanted("SECRET_KEY_FILE", 31): {"SECRET_KEY_FILE": str(short)},
        f"taskhub: SECRET_KEY_FILE names {empty}, which is empty": {"SECRET_KEY_FILE": str(empty)},
        f"taskhub: DATABASE_URL_FILE names {empty}, which is empty": {"DATABASE_URL_FILE": str(empty)},
        f"taskhub: SECRET_KEY_FILE names {odd}, which cannot be read: it is no UTF-8": {"SECRET_KEY_FILE": str(odd)},
        wanted("SECRET_KEY", 31): {"SECRET_KEY": f"  {SHORT}  "},
        wanted(str(data / "secret_key"), 0): {"SECRET_KEY": "", "TASKHUB_DATA_DIR": str(data)},
    }
    with ExitStack() as running:
        started = {
            line: running.enter_context(Command(tmp_path / str(number), "doctor", environment=known))
            for number, (line, known) in enumerate(cases.items())
        }
        for line, command in started.items():
            assert command.refusal() == line


def test_what_signs_or_unseals_starts_with_no_key_either(tmp_path: Path) -> None:
    unset = {"SECRET_KEY": "", "TASKHUB_DATA_DIR": str(tmp_path / "data")}
    web, worker = (Command(tmp_path / name, name, environment=unset) for name in ("web", "worker"))
    with web, worker:
        assert worker.refusal() == web.refusal()
