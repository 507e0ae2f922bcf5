"""`manage.py audit archive`, and `audit verify` of what it wrote."""

from __future__ import annotations

import io
import re
from pathlib import Path
from unittest.mock import patch

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tests.cli.shell import run
from tests.cli.test_operator_commands import TIME
from tests.domain.audit.test_archive import log, with_old_events
from tests.domain.kit import World

__all__ = ["log"]


def test_old_parts_go_to_files_that_can_be_verified_without_a_database(log: World, tmp_path: Path) -> None:
    for _ in range(2):
        with_old_events(log)
    code, out, _ = run("audit", "archive", "--to", str(tmp_path), "--keep-months", "0", "--dry-run")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["event_1", "event_2"]
    assert list(tmp_path.iterdir()) == []
    code, out, err = run("audit", "archive", "--to", str(tmp_path), "--keep-months", "0")
    assert (code, err) == (0, "")
    files = sorted(tmp_path.iterdir())
    assert len(files) == len(out.splitlines()) == 2
    assert run("audit", "archive", "--to", str(tmp_path), "--keep-months", "0")[1].startswith(
        "No part of the log ended"
    )
    code, out, err = run("audit", "verify")
    assert (code, err) == (0, "")
    assert re.search(rf"\n\d+ events up to {TIME} are in archives, the last of them taskhub-audit-", out)
    with patch.object(connection, "ensure_connection", side_effect=AssertionError("it needs no database")):
        code, out, err = run("audit", "verify", "--archive", *map(str, reversed(files)))
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["Intact:", "Intact:"]


def test_an_archive_that_was_changed_or_is_none_is_named(log: World, tmp_path: Path) -> None:
    for _ in range(3):
        with_old_events(log)
    assert run("audit", "archive", "--to", str(tmp_path), "--keep-months", "0")[0] == 0
    first, second, third = sorted(tmp_path.iterdir(), key=lambda path: path.name.split("-")[-1].split(".")[0].zfill(20))
    with pytest.raises(CommandError, match=f"AUDIT BROKEN: {third} does not go on where {first} ends"):
        call_command("audit", "verify", "--archive", first, third)
    out = io.StringIO()
    call_command("audit", "verify", "--archive", second, third, stdout=out)
    assert f"What came before {second} is in another archive." in out.getvalue()
    second.write_bytes(second.read_bytes()[:-9])
    with pytest.raises(CommandError, match=rf"AUDIT BROKEN: {second}: line \d+: "):
        call_command("audit", "verify", "--archive", second)
    third.write_text("no archive")
    with pytest.raises(CommandError, match=r"line [01]: this is no archive of TaskHub"):
        call_command("audit", "verify", "--archive", third)
    with pytest.raises(CommandError, match="No such file"):
        call_command("audit", "verify", "--archive", tmp_path / "none")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--to", "/nowhere/at/all"], "there is no such directory"),
        (["--to", "/tmp", "--keep-months", "-1"], "--keep-months: at least 0"),
    ],
)
def test_what_cannot_be_archived_is_said(db: None, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call_command("audit", "archive", *words)
