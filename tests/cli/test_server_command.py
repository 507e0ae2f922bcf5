"""`manage.py server`: what it prints, what it changes, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.domain.clients.principals import default_tenant
from taskhub.store.models import Event, Server, ServerGrant, ServerOAuth
from tests.cli.shell import run
from tests.factories import make_context, make_server, make_task, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Server:
    run("server", "add", "acme=https://acme.example/mcp")
    return Server.objects.get(name="acme")


def test_servers_are_listed_without_their_secrets() -> None:
    assert "No server" in run("server", "list")[1]
    run("server", "add", "paid=stdio:env KEY=sw0rdfish paid-server --fast")
    run("server", "add", "acme=https://acme.example/mcp")
    code, out, err = run("server", "list")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "STATE", "TOOLS", "ADDRESS", "OR", "COMMAND"],
        ["acme", "unknown", "0", "https://acme.example/mcp"],
        ["paid", "unknown", "0", "stdio:env", "KEY=•••", "paid-server", "--fast"],
    ]
    listed = json.loads(run("server", "list", "--json")[1])
    assert [(row["name"], row["spec"]) for row in listed] == [
        ("acme", "https://acme.example/mcp"),
        ("paid", "stdio:env KEY=••• paid-server --fast"),
    ]


def test_a_server_is_shown_with_its_tools_and_foreign_text_is_spelled(acme: Server) -> None:
    make_tool(acme, "look")
    make_tool(acme, "bad", rejected="\x1b[2Jno")
    out = run("server", "show", "acme")[1]
    assert "spec: https://acme.example/mcp\n" in out
    assert "  look (auto)\n" in out
    assert "\x1b" not in out
    found = json.loads(run("server", "show", "acme", "--json")[1])
    assert [(tool["name"], tool["mode"]) for tool in found["tools"]] == [("bad", "auto"), ("look", "auto")]
    with pytest.raises(CommandError, match=r"^There is no server named other\.$"):
        run("server", "show", "other")


def test_a_server_is_added_with_prefix_and_token_and_a_second_of_its_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("t0ken-of-theirs\n")
    out = run(
        "server", "add", "https://mcp.acme.example/mcp", "--prefix", "a_", "--token-file", str(tmp_path / "token")
    )
    assert out == (0, "acme is added; workers connect to it.\n", "")
    (row,) = enabled_servers()
    assert (row.name, row.prefix, row.token) == ("acme", "a_", "t0ken-of-theirs")
    with pytest.raises(CommandError, match="There is a server named acme already"):
        run("server", "add", "acme=https://other.example/mcp")
    monkeypatch.setattr("sys.stdin", io.StringIO("stdio:env KEY=sw0rdfish mine\n"))
    assert run("server", "add", "-")[1] == "mine is added; workers connect to it.\n"
    with pytest.raises(CommandError, match="cannot be read from /nowhere: No such file"):
        run("server", "add", "x=https://x.example/mcp", "--token-file", "/nowhere")
    assert Server.objects.count() == 2


def test_a_server_is_edited_and_its_token_belongs_to_its_address(acme: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("t0ken\n"))
    assert run("server", "edit", "acme", "--token-file", "-", "--calls", "3", "--prefix", "a_")[0] == 0
    (row,) = enabled_servers()
    assert (row.token, row.calls_at_once, row.prefix) == ("t0ken", 3, "a_")
    command = "stdio:env KEY=sw0rdfish acme-server"
    out = run("server", "edit", "acme", "--spec", command, "--prefix", "", "--shared", "yes")[1]
    assert "What was for the address or command of before is dropped: its token." in out
    (row,) = enabled_servers()
    assert (row.target, row.calls_at_once, row.prefix) == ("env KEY=sw0rdfish acme-server", 3, "")
    assert row.shared is True
    before = Event.objects.count()
    run("server", "edit", "acme", "--spec", "stdio:env KEY=••• acme-server", "--calls", "3")
    assert Event.objects.count() == before, "that is what it is already"
    assert enabled_servers() == [row]
    for words, why in (
        (("--spec", "stdio:env KEY=••• other"), "Give the whole"),
        (("--spec", "other=https://acme.example/mcp"), "A server keeps its name: this one is acme"),
        (("--calls", "0"), "from 1 on"),
        (("--calls", "1001"), "From 1 to 1,000"),
        (("--prefix", "1"), "A prefix has"),
        ((), "Nothing to change"),
    ):
        with pytest.raises(CommandError, match=why):
            run("server", "edit", "acme", *words)
    assert enabled_servers() == [row]


def test_a_disabled_server_shows_why(acme: Server) -> None:
    run("server", "disable", "acme", "--reason", "its vendor\nis  down")
    assert "disabled_reason: its vendor is down\n" in run("server", "show", "acme")[1]
    assert Event.objects.get(action="server.disabled").reason == "its vendor is down"
    run("server", "enable", "acme")
    with pytest.raises(CommandError, match="at most 200"):
        run("server", "disable", "acme", "--reason", "x" * 201)
    acme.refresh_from_db()
    assert (acme.enabled, acme.disabled_reason) == (True, "")


def test_a_server_with_live_calls_is_removed_only_if_told_so() -> None:
    server = make_server(default_tenant(), "files")
    context, tool = make_context(server.tenant), make_tool(server)
    make_task(context, tool)
    with pytest.raises(CommandError, match=r"1 wait and 0 run\. To remove it all the same: --yes\."):
        run("server", "remove", "files")
    assert run("server", "list")[1].count("files") == 1
    out = run("server", "remove", "files", "--yes")
    assert out == (0, "files is removed.\nCalls that waited for it and end as failed: 1.\n", "")
    assert "No server" in run("server", "list")[1]
    make_server(default_tenant(), "files")
    assert run("server", "remove", "files")[1] == "files is removed.\n"


def test_the_connection_is_tested_step_by_step_and_that_is_on_record() -> None:
    run("server", "add", "demo=python:taskhub.demo.server:server")
    out = run("server", "test", "demo")[1]
    assert [line.split()[:2] for line in out.splitlines()] == [["ok", "Import"], ["ok", "MCP"], ["ok", "Tools"]]
    steps = json.loads(run("server", "test", "demo", "--json")[1])
    assert [(step["name"], step["ok"]) for step in steps] == [("Import", True), ("MCP", True), ("Tools", True)]
    assert Event.objects.filter(action="server.tested", target="demo").count() == 2
    run("server", "add", "broken=stdio:env KEY=sw0rdfish-sw0rdfish no-such-program")
    with pytest.raises(CommandError, match=r"^broken cannot be used from here\.$"):
        run("server", "test", "broken")


def test_headers_variables_directory_and_time_come_from_files_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headers").write_text("# mine\n\nX-Api-Key: sw0rdfish\nX-Org: a:b\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("API_KEY=sw0rdfish\nLEVEL=x=y\n"))
    run("server", "add", "web=https://web.example/mcp", "--headers", str(tmp_path / "headers"), "--calls", "7")
    run("server", "add", "tool=stdio:tool@1.0", "--env", "-", "--cwd", "/srv", "--connect-seconds", "40")
    web, tool = enabled_servers()
    assert (dict(web.headers), web.calls_at_once) == ({"X-Api-Key": "sw0rdfish", "X-Org": "a:b"}, 7)
    assert dict(tool.environment) == {"API_KEY": "sw0rdfish", "LEVEL": "x=y"}
    assert (tool.directory, tool.connect_seconds) == ("/srv", 40)
    shown = run("server", "show", "tool")[1] + run("server", "show", "web", "--json")[1]
    assert "environment: API_KEY, LEVEL\ndirectory: /srv\n" in shown
    assert "X-Api-Key" in shown
    assert "sw0rdfish" not in shown
    (tmp_path / "env").write_text("API_KEY\nLEVEL=debug\n")
    run("server", "edit", "tool", "--env", str(tmp_path / "env"), "--spec", "stdio:tool@1.1", "--cwd", "")
    run("server", "edit", "tool", "--connect-seconds", "default")
    tool = enabled_servers()[1]
    assert dict(tool.environment) == {"API_KEY": "sw0rdfish", "LEVEL": "debug"}
    assert (tool.directory, tool.connect_seconds) == ("", 15)
    out = run("server", "edit", "tool", "--spec", "stdio:other")[1]
    assert "of before is dropped: variable API_KEY, variable LEVEL.\n" in out
    out = run("server", "set", "web=https://other.example/mcp")[1]
    assert out.endswith("of before is dropped: header X-Api-Key, header X-Org.\n")
    (tmp_path / "env").write_text("=b\n")
    for words, why in (
        (("--env", str(tmp_path / "env")), "expected variables as lines NAME=VALUE"),
        (("--env", "-", "--headers", "-"), "cannot both be read from standard input"),
        (("--connect-seconds", "no"), "--connect-seconds is a number from 1 on"),
    ):
        with pytest.raises(CommandError, match=why):
            run("server", "edit", "tool", *words)


def test_the_way_by_oauth_is_set_shown_and_dropped(acme: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret-of-ours\n")
    options = ["--oauth", "client", "--oauth-client-id", "hub", "--oauth-secret-file", str(secret)]
    assert run("server", "edit", "acme", *options, "--oauth-issuer", "https://login.example")[0] == 0
    (row,) = enabled_servers()
    assert row.oauth == "client"
    shown = json.loads(run("server", "show", "acme", "--json")[1])
    assert (shown["oauth"], shown["oauth_client_id"]) == ("client", "hub")
    assert shown["oauth_issuer"] == "https://login.example"
    assert "s3cret" not in json.dumps(shown) + str(list(Event.objects.values_list("before", "after")))
    with pytest.raises(CommandError, match="needs --oauth client, shared or each"):
        run("server", "edit", "acme", "--oauth-client-id", "hub")
    token = tmp_path / "token"
    token.write_text("fixed")
    with pytest.raises(CommandError, match="drop that first"):
        run("server", "edit", "acme", "--token-file", str(token))
    assert run("server", "edit", "acme", "--oauth", "none")[0] == 0
    assert enabled_servers()[0].oauth == ""
    assert "oauth" not in json.loads(run("server", "show", "acme", "--json")[1])


def test_the_hub_is_registered_anew(acme: Server) -> None:
    with pytest.raises(CommandError, match="TaskHub has not registered itself for acme"):
        run("server", "edit", "acme", "--oauth-register-anew")
    assert run("server", "edit", "acme", "--oauth", "shared")[0] == 0
    ServerOAuth.objects.update(registered={"issuer": "https://login.example", "id": "forgotten"})
    assert json.loads(run("server", "show", "acme", "--json")[1])["oauth_client_id"] == "forgotten"
    assert run("server", "edit", "acme", "--oauth-register-anew")[0] == 0
    assert json.loads(run("server", "show", "acme", "--json")[1])["oauth_client_id"] == ""
    event = Event.objects.get(action="server.registration.dropped")
    assert (event.actor, event.before["client_id"]) == ("manage.py", "forgotten")


def test_a_grant_for_the_lists_is_not_shown_as_one_for_everyone(acme: Server) -> None:
    for way, whom in (("shared", "everyone"), ("each", "the lists alone")):
        run("server", "edit", "acme", "--oauth", way)
        ServerGrant.objects.create(server=acme, issuer="https://login.example")
        assert json.loads(run("server", "show", "acme", "--json")[1])["authorized_for"] == [f"{whom} (good)"]
    out = run("server", "edit", "acme", "--oauth", "none")[1]
    assert "Authorizations that are dropped: 1. The authorization server did not confirm" in out
    assert "of before" not in out, "the address is the same"


def test_a_server_is_added_with_oauth_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("server", "add", "shared=https://acme.example/mcp", "--oauth", "shared", "--oauth-scopes", "a b")
    server = Server.objects.get(name="shared")
    assert code == 0
    assert out.endswith(f"An admin has to authorize it, on its page in the console: /servers/{server.pk}/\n")
    shown = json.loads(run("server", "show", "shared", "--json")[1])
    assert (shown["oauth"], shown["oauth_scopes"]) == ("shared", "a b")
    out = run("server", "add", "each=https://each.example/mcp", "--oauth", "each")[1]
    assert "Each person or client authorizes it" in out
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))
    robot = ["--oauth", "client", "--oauth-client-id", "hub", "--oauth-secret-file", "-"]
    assert run("server", "add", "robot=https://robot.example/mcp", *robot)[1].endswith("workers connect to it.\n")
    assert "s3cret" not in run("server", "show", "robot")[1]
    for options, why in (
        (["--oauth", "client"], "give both"),
        (["--oauth", "shared", "--oauth-issuer", "http://login.example"], "without https"),
        (["--oauth-client-id", "hub"], "needs --oauth client, shared or each"),
        (["--token-file", "-", *robot], "--token-file and --oauth-secret-file cannot both be read"),
    ):
        with pytest.raises(CommandError, match=why):
            run("server", "add", "refused=https://refused.example/mcp", *options)
    with pytest.raises(CommandError, match="Only a server with a URL"):
        run("server", "add", "refused=python:demo.server:server", "--oauth", "shared")
    assert not Server.objects.filter(name="refused").exists()


def test_a_python_server_gets_a_process_of_its_own_and_what_a_process_is_given(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("LEVEL=debug\n")
    given = ("--env", str(tmp_path / "env"), "--cwd", "/srv")
    with pytest.raises(CommandError, match="or an object in a process of its own"):
        run("server", "add", "own=python:mine:server", *given)
    with pytest.raises(CommandError, match="Only a Python object can be given a process of its own"):
        run("server", "add", "tool=stdio:tool", "--own-process", "yes")
    run("server", "add", "own=python:mine:server", "--own-process", "yes", *given)
    (row,) = enabled_servers()
    assert (row.own_process, dict(row.environment), row.directory) == (True, {"LEVEL": "debug"}, "/srv")
    assert row.calls_at_once == 64, "as without"
    assert Event.objects.get(action="server.added").after["own_process"] is True
    assert "directory: /srv\nown_process: true\n" in run("server", "show", "own")[1]
    with pytest.raises(CommandError, match="Remove its variables and its working directory too"):
        run("server", "edit", "own", "--own-process", "no")
    (tmp_path / "env").write_text("")
    run("server", "edit", "own", "--own-process", "no", "--env", str(tmp_path / "env"), "--cwd", "")
    (row,) = enabled_servers()
    assert (row.own_process, row.environment, row.directory) == (False, (), "")
    run("server", "set", "own=python:mine:server", "--own-process", "yes")
    run("server", "edit", "own", "--spec", "python:mine:other", "--cwd", "/srv")
    (row,) = enabled_servers()
    assert (row.target, row.own_process, row.directory) == ("mine:other", True, "/srv")
    run("server", "edit", "own", "--spec", "https://mine.example/mcp")
    (row,) = enabled_servers()
    assert (row.own_process, row.directory) == (False, ""), "an address has none"
