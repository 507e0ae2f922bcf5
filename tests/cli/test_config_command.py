"""`manage.py config`: a file of configuration is exported, compared and applied from a shell."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.domain.clients.principals import default_tenant
from taskhub.store.models import Event, Membership, Server
from tests.cli.shell import Command, run
from tests.factories import make_server, make_tool

pytestmark = pytest.mark.django_db

FILE = """\
format: 1
servers:
  - name: acme
    spec: https://acme.example/mcp
    token: ${env:ACME_TOKEN}
    headers:
      X-Key: ${file:%s/key}
people:
  - username: ann
    role: admin
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "key").write_text("h3ader\n")
    monkeypatch.setenv("ACME_TOKEN", "t0ken")
    made = tmp_path / "hub.yaml"
    made.write_text(FILE % tmp_path)
    return made


def test_a_file_is_compared_applied_and_compared_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = (
        "server acme: added, https://acme.example/mcp, token given, header X-Key given\n"
        "person ann: added, role admin\n2 changes"
    )
    for words in (("diff", str(file)), ("apply", str(file), "--dry-run")):
        assert run("config", *words) == (2, f"{told} to apply.\n", "")
    assert not Server.objects.exists()
    code, out, err = run("config", "apply", str(file), "--reason", "a start")
    assert (code, err) == (0, "")
    assert out == f"{told} applied.\nann has no password yet: manage.py person password ann\n"
    (row,) = enabled_servers()
    assert (row.token, row.own_headers) == ("t0ken", (("X-Key", "h3ader"),))
    assert set(Event.objects.values_list("reason", flat=True)) == {"a start"}
    monkeypatch.setattr("sys.stdin", io.StringIO(file.read_text()))
    assert run("config", "diff", "-") == (0, "Nothing differs.\n", "")
    assert run("config", "apply", str(file)) == (0, "Nothing differs.\n", "")
    file.write_text("format: 1\nservers: []\n")
    assert run("config", "diff", str(file)) == (0, "Nothing differs.\nNot listed, and left alone: server acme.\n", "")
    assert run("config", "diff", str(file), "--prune") == (2, "server acme: removed\n1 change to apply.\n", "")
    assert run("config", "apply", str(file), "--prune") == (0, "server acme: removed\n1 change applied.\n", "")


def test_what_is_exported_differs_in_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("config", "apply", str(file))
    code, out, err = run("config", "export")
    assert (code, err) == (0, "")
    assert "t0ken" not in out
    assert "h3ader" not in out
    file.write_text(out)
    with pytest.raises(CommandError, match=r"hub\.yaml:10: token: The variable SECRET_ACME_TOKEN is not set\."):
        run("config", "diff", str(file))
    kept = "Nothing differs.\nSecrets left as they are: server acme: token, server acme: headers.X-Key.\n"
    assert run("config", "diff", str(file), "--keep-secrets") == (0, kept, "")
    monkeypatch.setenv("SECRET_ACME_TOKEN", "t0ken")
    monkeypatch.setenv("SECRET_ACME_HEADER_X_KEY", "h3ader")
    assert run("config", "diff", str(file)) == (0, "Nothing differs.\n", "")


def test_a_refusal_names_the_line_and_nothing_is_changed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff")
    with pytest.raises(CommandError, match=rf"^{file}:7: headers.X-Key: {tmp_path}/key cannot be read: it is no UTF-8"):
        run("config", "apply", str(file))
    (tmp_path / "key").write_bytes(b"x" * 70_000)
    with pytest.raises(CommandError, match="larger than 65,536 bytes") as refused:
        run("config", "apply", str(file))
    assert refused.value.returncode == 1
    (tmp_path / "key").unlink()
    with pytest.raises(CommandError, match="No such file or directory"):
        run("config", "diff", str(file))
    with pytest.raises(CommandError, match=r"^/nowhere cannot be read"):
        run("config", "diff", "/nowhere")
    assert (Server.objects.count(), Membership.objects.count(), Event.objects.count()) == (0, 0, 0)


def test_what_cannot_be_read_as_a_command_is_no_difference(tmp_path: Path) -> None:
    wrong = (("config", "dif", "x"), ("config",))
    with ExitStack() as running:
        started = [running.enter_context(Command(tmp_path / str(n), *words)) for n, words in enumerate(wrong)]
        for command in started:
            assert command.code() == 1
            assert "usage:" in command.err


RULES = """\
format: 1
rules:
  - name: deploys
    when: tool.name == "deploy"
    then: ask
    group: ops
people:
  - username: ann
    role: admin
"""
FEW = (
    "Warning: rule deploys: Nobody in the group ops may approve, and 1 is needed: such a call waits until its time is"
    " over, and is then denied.\n"
)


def test_a_rule_that_nobody_could_decide_is_warned_of(tmp_path: Path) -> None:
    made = tmp_path / "hub.yaml"
    made.write_text(RULES)
    for verb in ("diff", "apply"):
        assert FEW in run("config", verb, str(made))[1]
    made.write_text(f"{RULES}    groups: [ops]\n")
    assert run("config", "diff", str(made)) == (2, 'person ann: groups ["ops"] (was [])\n1 change to apply.\n', "")


def test_a_rule_in_doubt_for_tools_without_its_argument_is_warned_of(tmp_path: Path) -> None:
    make_tool(make_server(default_tenant()), "status")
    made = tmp_path / "hub.yaml"
    made.write_text("format: 1\nrules:\n  - name: pay\n    when: args.amount > 5\n    then: deny\n")
    for verb in ("diff", "apply"):
        told = run("config", verb, str(made))[1]
        assert "Warning: rule pay: The only tool has no argument amount: every call of them is in doubt" in told


@pytest.mark.parametrize("verb", ["diff", "apply"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, verb: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, why in ((tmp_path / "pipe", "it is no regular file"), (tmp_path, "it is no regular file")):
        with pytest.raises(CommandError, match=f"{path} cannot be read: {why}. Give `-` to read from standard input."):
            run("config", verb, str(path))


def test_a_secret_is_read_from_no_pipe(file: Path, tmp_path: Path) -> None:
    (tmp_path / "key").unlink()
    os.mkfifo(tmp_path / "key")
    with pytest.raises(CommandError, match="key cannot be read: it is no regular file"):
        run("config", "diff", str(file))


def test_a_file_has_a_bound(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskhub.cli.mcpjson.MAX_FILE", 20)
    with pytest.raises(CommandError, match="it is larger than 20 bytes"):
        run("config", "diff", str(file))
    monkeypatch.setattr("sys.stdin", io.StringIO(file.read_text()))
    with pytest.raises(CommandError, match="Standard input has more than 20 characters"):
        run("config", "diff", "-")
