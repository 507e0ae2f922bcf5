"""`manage.py server import`: all of a file or nothing, and its placeholders are asked for."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from taskhub.control.caller import of_shell
from taskhub.control.credentials import set_oauth
from taskhub.control.servers import import_servers
from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.server_files import FileOAuth, FileServer
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.domain.credentials.reads import OAuthRow, oauth_of
from taskhub.domain.credentials.records import OAuthSettings, Way
from taskhub.store.models import Event, Server
from tests.cli.shell import run

pytestmark = pytest.mark.django_db

SERVERS = {
    "files": {"command": "files-server", "args": ["/srv"], "env": {"KEY": "${KEY}"}, "timeout": 5},
    "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    "off": {"command": "x", "disabled": True},
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": SERVERS}))
    return path


def found() -> list[tuple[str, str, object]]:
    return [(row.name, row.target, row.token or dict(row.environment)) for row in enabled_servers()]


FILLED = [("files", "files-server /srv", {"KEY": "sw0rdfish"}), ("remote", "https://example.com/mcp", "t0ken")]


def test_what_would_be_added_is_shown_and_nothing_is_asked_or_added(file: Path) -> None:
    out = run("server", "import", str(file), "--dry-run")[1]
    assert out.splitlines() == [
        "files: stdio:files-server /srv, variables KEY",
        "remote: https://example.com/mcp, with a token",
        "Asks for: KEY, TOKEN.",
        "Settings of files that are not kept: timeout.",
        "Left out, since the file disables them: off.",
    ]
    assert (Server.objects.count(), Event.objects.count()) == (0, 0)


def test_what_the_import_refuses_a_dry_run_refuses_too(file: Path) -> None:
    run("server", "add", "remote=https://other.example/mcp")
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"^There is a server named remote already\.$"):
        call_command("server", "import", str(file), "--dry-run", stdout=out)
    assert "remote: https://example.com/mcp, with a token (there is a server of this name: refused)" in out.getvalue()
    assert Server.objects.count() == 1


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"args": ["${input:pw}"]}, "the secret input:pw would stand in its command or address, which is shown"),
        ({"args": ["a", "b\nc"]}, r"Argument 2 of the command has U\+000A \(line break\)\. A server is given as one"),
        ({"args": ["sw0rd\u202efish"]}, r"Argument 1 of the command has U\+202E \(right-to-left override\)"),
        ({"command": "x\u00a0"}, r"The program of the command has U\+00A0 \(no-break space\)"),
        ({"cwd": "${D}/\u202e"}, "A working directory is a full path"),
        ({"command": None, "url": "https://example.com/${input:pw}"}, "the secret input:pw would stand"),
        ({"command": None, "url": "https://example.com/\u202e"}, r"The address has U\+202E \(right-to-left"),
        ({"command": None, "url": "https://example.com", "headers": {"A": "\u202e"}}, "The value of the header A"),
        ({"command": None, "url": "https://example.com", "headers": {"Authorization": "Bearer a b"}}, "A token has"),
        (
            {"command": None, "url": "https://example.com", "headers": {"Authorization": "Bearer a"}, "oauth": {}},
            "The server is sent a token or the header Authorization already",
        ),
    ],
)
def test_a_dry_run_makes_the_checks_of_the_import(tmp_path: Path, entry: dict[str, Any], why: str) -> None:
    path, values = tmp_path / "mcp.json", tmp_path / "values"
    inputs = [{"id": "pw", "type": "promptString", "password": True}]
    path.write_text(
        json.dumps({"servers": {"fresh": {"command": "y"}, "it": {"command": "x"} | entry}, "inputs": inputs})
    )
    values.write_text("input:pw=sw0rdfish\nD=/srv\n")
    said = []
    for options in (["--dry-run"], ["--dry-run", "--values", str(values)], ["--values", str(values)]):
        with pytest.raises(CommandError, match=rf"^it: {why}") as refused:
            run("server", "import", str(path), *options)
        said.append(str(refused.value))
    assert len(set(said)) == 1
    assert "sw0rd" not in said[0]
    assert not Server.objects.exists()


def test_a_dry_run_supposes_values_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {
        "a": {"command": "${PROGRAM}", "args": ["--at=20000", "${input:pw}x"], "env": {"K": "${S}"}, "cwd": "${DIR}/x"},
        "b": {"url": "${URL}/mcp", "headers": {"Authorization": "Bearer ${T}"}},
        "c": {"type": "sse", "url": "${URL2}", "headers": {"Authorization": "${T}", "X": "${S}"}},
        "d": {"url": "https://${HOST}:${PORT}/mcp?x=${X}"},
    }
    inputs = [{"id": "pw", "type": "promptString"}]
    path.write_text(json.dumps({"servers": servers, "inputs": inputs}))
    assert "Asks for: PROGRAM, input:pw, S, DIR, URL, T, URL2, HOST, PORT, X." in run(
        "server", "import", str(path), "--dry-run"
    )[1].replace("\n", " ")
    (tmp_path / "values").write_text("PORT=none\n")
    with pytest.raises(CommandError, match=r"^d: Expected a full URL"):
        run("server", "import", str(path), "--dry-run", "--values", str(tmp_path / "values"))


def test_without_a_terminal_the_values_come_from_a_file_and_never_from_the_environment(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "of-the-hub")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match=r"^Values are needed for KEY, TOKEN\. .* not taken from the environment\.$"):
        run("server", "import", str(file))
    (tmp_path / "values").write_text("# mine\n\nKEY = sw0rdfish\n")
    with pytest.raises(CommandError, match=r"^Values are needed for TOKEN\."):
        run("server", "import", str(file), "--values", str(tmp_path / "values"))
    (tmp_path / "values").write_text("KEY=sw0rdfish\nTOKEN=t0ken\n")
    out, err = run("server", "import", str(file), "--values", str(tmp_path / "values"))[1:]
    assert found() == FILLED
    assert "sw0rdfish" not in out + err + str(list(Event.objects.values_list("after", flat=True)))
    assert out.startswith("files is added; workers connect to it.\nremote is added")


def test_at_a_terminal_each_value_is_asked_for_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    typed = {"KEY: ": "sw0rdfish", "TOKEN: ": "t0ken"}
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: (asked.append(prompt), typed[prompt])[1])
    run("server", "import", str(file))
    assert (found(), asked) == (FILLED, ["KEY: ", "TOKEN: "])


def test_who_types_nothing_imports_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", left)
    with pytest.raises(CommandError, match=r"^There is no value for KEY\.$"):
        run("server", "import", str(file))
    assert not Server.objects.exists()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "x"}, "There is a server named taken already"),
        ({"url": "https://x/mcp", "headers": {"Authorization": "Bearer a b"}}, "taken: A token has"),
    ],
)
def test_all_of_a_file_or_nothing(tmp_path: Path, entry: dict[str, Any], why: str) -> None:
    if "command" in entry:
        run("server", "add", "taken=https://example.com/mcp")
    path, before = tmp_path / "mcp.json", Server.objects.count()
    path.write_text(json.dumps({"servers": {"fresh": {"command": "y"}, "taken": entry}}))
    with pytest.raises(CommandError, match=why):
        run("server", "import", str(path))
    assert Server.objects.count() == before
    assert not Event.objects.filter(action="server.added", target="fresh").exists()


def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "no", "cannot be read: No such file"), (tmp_path / "bad", "The file is no JSON")):
        (tmp_path / "bad").write_text("{")
        with pytest.raises(CommandError, match=rf"^[^\n]*{why}[^\n]*$"):
            run("server", "import", str(path))
    (tmp_path / "bad").write_bytes(b"\xff")
    with pytest.raises(CommandError, match="it is no UTF-8 text"):
        run("server", "import", str(tmp_path / "bad"))


def test_a_file_that_is_given_again_at_each_start_changes_only_what_differs() -> None:
    given = [FileServer("remote", "https://example.com/mcp", token="t0ken")]
    first = import_servers(of_shell(), given, again=True)
    before = Event.objects.count()
    assert import_servers(of_shell(), given, again=True) == first
    assert Event.objects.count() == before
    import_servers(of_shell(), [FileServer("remote", "https://example.com/mcp", token="another")], again=True)
    assert found() == [("remote", "https://example.com/mcp", "another")]


def test_a_file_that_is_given_again_may_give_other_things() -> None:
    def given(**what: Any) -> tuple[str, dict[str, str], dict[str, str], str]:
        import_servers(of_shell(), [FileServer("it", **what)], again=True)
        (row,) = enabled_servers()
        return row.token, dict(row.own_headers), dict(row.environment), row.directory

    url = "https://example.com/mcp"
    assert given(spec=url, headers={"X-Org": "a", "Authorization": "Basic YTpi"})[1]["Authorization"] == "Basic YTpi"
    before = Event.objects.count()
    given(spec=url, headers={"X-Org": "a", "Authorization": "Basic YTpi"})
    assert Event.objects.count() == before, "that is what it has"
    assert given(spec=url, token="t0ken") == ("t0ken", {"X-Org": "a"}, {}, "")
    assert given(spec=url, headers={"authorization": "Basic YTpi"}) == ("", {"authorization": "Basic YTpi"}, {}, "")
    command = {"spec": "stdio:it", "environment": {"KEY": "k"}, "directory": "/srv"}
    assert given(**command) == ("", {}, {"KEY": "k"}, "/srv")
    before = Event.objects.count()
    assert given(**command) == ("", {}, {"KEY": "k"}, "/srv")
    assert Event.objects.count() == before


OAUTH = {
    "clientId": "abc",
    "scopes": "a",
    "authServerMetadataUrl": "https://auth.example/.well-known/openid-configuration",
}


def test_a_server_that_is_authorized_by_oauth_is_shown_and_added_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"it": {"url": "https://example.com/mcp", "oauth": OAUTH}}}))
    lines = run("server", "import", str(path), "--dry-run")[1].splitlines()
    shown = "it: https://example.com/mcp, OAuth, as client abc, at https://auth.example, with the scopes a"
    assert lines == [shown, "May be given: it.clientSecret."]
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: (asked.append(prompt), "sw0rdfish")[1])
    out, err = run("server", "import", str(path))[1:]
    assert asked == ["it.clientSecret (The secret of the client abc for it) [may be empty]: "]
    assert "Each person or client authorizes it when a call first needs that" in out
    row = oauth_of(Server.objects.get().pk)
    assert row is not None
    assert (row.way, row.wanted_issuer, row.client_id, row.has_secret, row.scopes) == (
        Way.EACH,
        "https://auth.example",
        "abc",
        True,
        "a",
    )
    assert "sw0rdfish" not in out + err + str(list(Event.objects.values_list("after", flat=True)))


def test_oauth_of_a_file_that_is_given_again_keeps_what_an_admin_has_set_besides() -> None:
    def given(**what: Any) -> OAuthRow:
        import_servers(of_shell(), [FileServer("it", "https://example.com/mcp", **what)], again=True)
        row = oauth_of(Server.objects.get().pk)
        assert row is not None
        return row

    assert given(oauth=FileOAuth("abc", "sw0rdfish")).way is Way.EACH
    before = Event.objects.count()
    assert given(oauth=FileOAuth("abc", "sw0rdfish")).has_secret
    assert given(oauth=FileOAuth("abc")).has_secret, "its secret is not in the file"
    assert Event.objects.count() == before
    set_oauth(of_shell(), Server.objects.get().pk, OAuthSettings(Way.SHARED, client_id="abc", scopes="a b"))
    row = given(oauth=FileOAuth("abc"))
    assert (row.way, row.scopes, row.has_secret) == (Way.SHARED, "a b", True)
    assert given(oauth=FileOAuth("abc", "s", by_client=True)).way is Way.CLIENT
    with pytest.raises(Invalid, match="it: The server is authorized by OAuth: drop that first"):
        given(token="t0ken")
    set_oauth(of_shell(), Server.objects.get().pk, None)
    import_servers(of_shell(), [FileServer("it", "https://example.com/mcp", token="t0ken")], again=True)
    assert given(oauth=FileOAuth()).way is Way.EACH
    assert enabled_servers()[0].token == ""


ENTRY = Path(__file__).parents[1] / "support" / "server_files" / "weather.server.json"


def test_an_entry_of_the_registry_is_pinned_and_asks_for_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    out = run("server", "import", str(ENTRY), "--dry-run")[1]
    assert out.splitlines() == [
        "weather: stdio:npx -y @acme/weather-mcp@2.4.1 serve '--units=${units}' '--proxy=${proxy}' '${place}',"
        " variables WEATHER_API_KEY, WEATHER_LOG, WEATHER_CACHE",
        "Asks for: WEATHER_API_KEY, place.",
        "May be given: WEATHER_LOG, WEATHER_CACHE, units, proxy.",
        "Way in: npm. Others, with --use: pypi.",
    ]
    why = r"^Values are needed for WEATHER_API_KEY \(Key of the service\), place \(Places\)\. "
    with pytest.raises(CommandError, match=why):
        run("server", "import", str(ENTRY))
    assert not Server.objects.exists()
    (tmp_path / "values").write_text("WEATHER_API_KEY=sw0rdfish\nplace=Bern Basel\n")
    out = run("server", "import", str(ENTRY), "--values", str(tmp_path / "values"), "--name", "sky")[1]
    (row,) = enabled_servers()
    assert (row.name, row.target) == ("sky", "npx -y @acme/weather-mcp@2.4.1 serve --units=metric Bern Basel")
    assert dict(row.environment) == {"WEATHER_API_KEY": "sw0rdfish", "WEATHER_LOG": "info"}
    with pytest.raises(CommandError, match="There is a server named sky already"):
        run("server", "import", str(ENTRY), "--values", str(tmp_path / "values"), "--name", "sky", "--use", "pypi")


def test_at_a_terminal_secrets_are_not_shown_and_defaults_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    secret: list[str] = []
    open_: list[str] = []
    typed = iter(["", "", "us", "", "Bern"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: (secret.append(prompt), "sw0rdfish")[1])
    monkeypatch.setattr("builtins.input", lambda prompt: (open_.append(prompt), next(typed))[1])
    run("server", "import", str(ENTRY))
    assert secret == ["WEATHER_API_KEY (Key of the service): "]
    assert open_ == [
        "WEATHER_LOG (Level) [empty: info]: ",
        "WEATHER_CACHE (A directory) [may be empty]: ",
        "units (Units) [one of metric, us; empty: metric]: ",
        "proxy (An HTTP proxy) [may be empty]: ",
        "place (Places): ",
    ]
    assert enabled_servers()[0].target == "npx -y @acme/weather-mcp@2.4.1 serve --units=us Bern"


def test_what_stands_in_the_file_is_said_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {"a": {"command": "x", "args": ["--token", "sw0rdfish"], "env": {"KEY": "sw0rdfish"}}}
    path.write_text(json.dumps({"mcpServers": servers}))
    out = run("server", "import", str(path))[1]
    assert "Values of a that stand in the file, and are stored encrypted: its command, KEY.\n" in out
    assert "sw0rdfish" not in out
