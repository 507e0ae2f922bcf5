"""`manage.py token create`, `manage.py person` and `manage.py server set`: what they print is the secret, if they make
one, and it works."""

from __future__ import annotations

import io
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.core.management.base import CommandError
from django.db import connection

from taskhub.domain.catalogue.reads import target_of
from taskhub.domain.clients.principals import default_tenant, person_of, principal_of
from taskhub.store import room
from taskhub.store.models import AccessToken, Event, Membership, Server
from tests.cli.shell import Command, run
from tests.support.client import Client
from tests.support.hub import RunningHub

SCOPES = ["tasks:answer", "tasks:call", "tasks:cancel", "tasks:read"]


# --- token create


@pytest.mark.processes
def test_the_token_is_all_that_is_printed_and_works_at_once(hub: RunningHub, tmp_path: Path) -> None:
    words = ("token", "create", "from-the-shell", "--scopes", "tasks:read", "--data-dir", str(hub.data))
    with Command(tmp_path, *words, environment=hub.environment) as command:
        code, out = command.outcome()
        assert (code, command.err) == (0, "")
    assert re.fullmatch(r"thub_[\w-]{43}\n", out)
    with Client(hub.base, out.strip()) as client:
        assert "greet" in [tool["name"] for tool in client.call("tools/list").result["tools"]]
        assert client.tool("greet", {"name": "x"}).status == 403


@pytest.mark.django_db
def test_a_token_has_all_scopes_and_ninety_days_unless_told_otherwise() -> None:
    code, out, err = run("token", "create", "agent")
    principal = principal_of(out.strip(), "192.0.2.1")
    assert (code, err) == (0, "")
    assert principal is not None
    assert (principal.name, sorted(principal.scopes)) == ("agent", SCOPES)
    assert principal.expires_at is not None
    assert abs(principal.expires_at - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=1)


@pytest.mark.django_db
def test_scopes_and_days_are_taken_as_given() -> None:
    _, out, _ = run("token", "create", "agent", "--scopes", "tasks:call, tasks:read", "--days", "3")
    principal = principal_of(out.strip(), "192.0.2.1")
    assert principal is not None
    assert sorted(principal.scopes) == ["tasks:call", "tasks:read"]
    assert principal.expires_at is not None
    assert abs(principal.expires_at - datetime.now(UTC) - timedelta(days=3)) < timedelta(minutes=1)


@pytest.mark.django_db
def test_a_second_token_belongs_to_the_same_client_and_the_first_still_works() -> None:
    first, second = (run("token", "create", "agent")[1].strip() for _ in range(2))
    one, two = principal_of(first, "192.0.2.1"), principal_of(second, "192.0.2.1")
    assert one is not None
    assert two is not None
    assert first != second
    assert one.context_id == two.context_id


@pytest.mark.django_db
def test_a_token_made_at_the_shell_is_on_record_without_the_secret() -> None:
    _, out, _ = run("token", "create", "agent")
    event = Event.objects.get(action="token.issued")
    assert (event.actor, event.door, event.target) == ("manage.py", "cli", "agent")
    assert out.strip() not in str(event.after)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("agent", "--scopes", "tasks:call,tasks:rule"), r"^Unknown scope tasks:rule; there are: tasks:call, "),
        (("agent", "--scopes", " , "), r"^Unknown scope \(none\); there are: "),
        (("agent", "--days", "0"), r"^A token lives 1 to 3650 days, not 0\.$"),
        (("agent", "--days", "3651"), r"^A token lives 1 to 3650 days, not 3651\.$"),
        (("agent", "--days", "soon"), r"argument --days: invalid int value"),
        ((" ",), r"^A client needs a name of 1 to 128 characters\.$"),
        ((), r"the following arguments are required: client"),
    ],
)
@pytest.mark.django_db
def test_a_token_that_cannot_be_made_is_refused_in_words(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        run("token", "create", *words)
    assert not AccessToken.objects.exists()


# --- person add


@pytest.mark.django_db
def test_the_printed_password_signs_the_new_person_in() -> None:
    code, out, err = run("person", "add", "ada", "--role", "approver", "--group", "ops", "--group", "finance")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"\w{5}(-\w{5}){3}\n", out)
    user = authenticate(username="ada", password=out.strip())
    assert user is not None
    person = person_of(user.pk, "ada")
    assert person is not None
    assert (str(person.role), sorted(person.groups)) == ("approver", ["finance", "ops"])


@pytest.mark.django_db
def test_a_person_added_at_the_shell_is_on_record() -> None:
    run("person", "add", "ada", "--role", "viewer")
    event = Event.objects.get(action="person.added")
    assert (event.actor, event.door, event.target) == ("manage.py", "cli", "ada")
    assert event.after == {"role": "viewer", "groups": []}


@pytest.mark.django_db
def test_a_name_that_is_taken_is_refused_and_the_person_stays_as_they_are() -> None:
    _, out, _ = run("person", "add", "ada", "--role", "viewer")
    with pytest.raises(CommandError, match=r"^There is a person named Ada already\.$"):
        run("person", "add", "Ada", "--role", "admin")
    assert list(Membership.objects.values_list("user__username", "role")) == [("ada", "viewer")]
    assert authenticate(username="ada", password=out.strip()) is not None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("ada", "--role", "king"), r"argument --role: invalid choice: 'king'"),
        (("ada",), r"the following arguments are required: --role"),
        (("ada lovelace", "--role", "viewer"), r"^A username has 1 to 150 letters, "),
        (("ada", "--role", "viewer", "--group", "a/b"), r"^'a/b' is no group's name: "),
    ],
)
@pytest.mark.django_db
def test_a_person_who_cannot_be_added_is_refused_in_words(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        run("person", "add", *words)
    assert not Membership.objects.exists()


# --- person list, disable, enable, remove, password


@pytest.fixture
def people(db: None) -> None:
    run("person", "add", "root", "--role", "admin")
    run("person", "add", "ada", "--role", "approver", "--group", "ops", "--group", "finance")


def listed() -> list[list[str]]:
    return [re.split(r"  +", line) for line in run("person", "list")[1].splitlines()]


@pytest.mark.usefixtures("people")
def test_everybody_is_listed_with_role_groups_and_state() -> None:
    assert listed() == [
        ["NAME", "ROLE", "GROUPS", "STATE", "SECOND FACTOR", "LAST SIGN-IN"],
        ["ada", "approver", "finance, ops", "enabled", "none", "never"],
        ["root", "admin", "-", "enabled", "none", "never"],
    ]


@pytest.mark.usefixtures("people")
def test_a_person_is_disabled_enabled_and_removed_at_the_shell_and_it_is_on_record() -> None:
    assert run("person", "disable", "Ada")[1] == "Ada is disabled, and signed out everywhere.\n"
    assert run("person", "disable", "ada")[1] == "ada was disabled already.\n"
    assert listed()[1][3] == "disabled"
    assert run("person", "enable", "ada")[1] == "ada may sign in again.\n"
    assert run("person", "enable", "ada")[1] == "ada was not disabled.\n"
    assert run("person", "remove", "ada")[1] == "ada is removed, and signed out everywhere.\n"
    assert [row[0] for row in listed()] == ["NAME", "root"]
    events = Event.objects.filter(target="ada", actor="manage.py", door="cli").order_by("id")
    assert [event.action for event in events] == ["person.added", "person.disabled", "person.enabled", "person.removed"]


@pytest.mark.usefixtures("people")
def test_a_new_password_is_made_and_printed_or_read(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run("person", "password", "ada")
    assert (code, err) == (0, "")
    assert authenticate(username="ada", password=out.strip()) is not None
    monkeypatch.setattr("sys.stdin", io.StringIO("a horse of another colour\n"))
    assert run("person", "password", "ada", "--stdin")[1] == ""
    assert authenticate(username="ada", password="a horse of another colour") is not None
    assert Membership.objects.get(user__username="ada").password_due
    assert Event.objects.filter(action="person.password.set", target="ada").count() == 2


@pytest.mark.parametrize(
    ("words", "typed", "why"),
    [
        (("disable", "root"), "", r"^root is the only admin; make somebody else admin first\.$"),
        (("remove", "root"), "", r"^root is the only admin; make somebody else admin first\.$"),
        (("disable", "bob"), "", r"^There is no person named bob; `manage\.py person list` names all\.$"),
        (("password", "ada", "--stdin"), "short\n", r"at least 12 characters"),
        (("password", "ada", "--stdin"), "", r"^There is no password on the standard input\.$"),
        (("enable",), "", r"the following arguments are required: username"),
    ],
)
@pytest.mark.usefixtures("people")
def test_what_cannot_be_done_to_people_is_refused_in_words(
    words: tuple[str, ...], typed: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    before = Event.objects.count()
    with pytest.raises(CommandError, match=why):
        run("person", *words)
    assert Event.objects.count() == before


# --- server set


@pytest.mark.django_db
def test_a_server_is_added_and_changed_and_its_secret_comes_from_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run("server", "set", "acme=https://acme.example/mcp")
    assert (code, out, err) == (0, "acme is set; workers connect to it.\n", "")
    monkeypatch.setattr("sys.stdin", io.StringIO("acme=stdio:env API_TOKEN=sw0rdfish acme-server\n"))
    code, out, err = run("server", "set", "-")
    server = Server.objects.get()
    assert (code, server.name, server.transport, server.target) == (0, "acme", "stdio", "env API_TOKEN=••• acme-server")
    assert target_of(server) == "env API_TOKEN=sw0rdfish acme-server"
    assert "sw0rdfish" not in out + err


@pytest.mark.django_db
def test_a_server_that_is_connected_already_is_told_by_the_name_that_it_has() -> None:
    run("server", "set", "acme=http://127.0.0.1:9100/mcp")
    code, out, err = run("server", "set", "http://127.0.0.1:9100/mcp")
    assert (code, out, err) == (0, "That is connected already, as acme.\n", "")
    assert [server.name for server in Server.objects.all()] == ["acme"]


@pytest.mark.django_db
def test_a_server_that_is_none_is_refused_in_one_line() -> None:
    with pytest.raises(CommandError, match=r"^[^\n]+$"):
        run("server", "set", "ftp://acme.example")
    assert not Server.objects.exists()


# --- a full disk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("token", "create", "agent"), 1),
        (("person", "add", "someone", "--role", "viewer"), 1),
        (("audit", "verify"), 2),
    ],
    ids=["token", "person", "audit"],
)
def test_a_full_disk_is_told_in_a_line(words: tuple[str, ...], code: int) -> None:
    default_tenant()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "CREATE FUNCTION pg_temp.no_room() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
        )
        cursor.execute("CREATE TRIGGER no_room BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION pg_temp.no_room()")
    try:
        with pytest.raises(CommandError, match=r"^The database's disk is full: nothing new can be stored\. ") as told:
            run(*words)
    finally:
        room.note_room()
    assert told.value.returncode == code


@pytest.mark.parametrize(("words", "code"), [(("audit", "verify"), 2), (("doctor",), 1)], ids=["audit", "doctor"])
def test_what_postgres_says_to_who_may_not_come_in_is_told(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    url = re.sub(r"//[^@/]*@", "//nobody:geheim@", os.environ["DATABASE_URL"])
    assert "nobody" in url
    with Command(tmp_path, *words, environment={"DATABASE_URL": url, "SECRET_KEY": "k" * 40}) as command:
        line = command.refusal()
    assert line == 'CommandError: The database refuses us: role "nobody" does not exist'
    assert command.code() == code
