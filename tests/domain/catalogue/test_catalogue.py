"""A server's tools, stored: what they say of themselves, whichever version of ours read it before."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.errors import Refused
from taskhub.core.records import TaskMode
from taskhub.domain.catalogue import sync as servers
from taskhub.domain.catalogue import writes as policies
from taskhub.domain.catalogue.sync import connect_server, store_snapshot
from taskhub.domain.catalogue.view import catalogue, forget_catalogues
from taskhub.store.models import Event, Server, Tool
from taskhub.upstream.catalogue import vetted
from tests.factories import WORKER, make_server, make_tenant

pytestmark = pytest.mark.django_db

FORBIDDEN = {"execution": {"taskSupport": "forbidden"}}
"""What the TypeScript SDK writes on every tool."""
SAID: dict[str, tuple[dict[str, Any], TaskMode]] = {
    "nothing": ({}, TaskMode.AUTO),
    "forbidden": (FORBIDDEN, TaskMode.AUTO),
    "optional": ({"execution": {"taskSupport": "optional"}}, TaskMode.AUTO),
    "required": ({"execution": {"taskSupport": "required"}}, TaskMode.AUTO),
    "hinted": ({**FORBIDDEN, "_meta": {"taskhub/task": "always"}}, TaskMode.ALWAYS),
    "needed": ({**FORBIDDEN, "_meta": {"taskhub/task": "required"}}, TaskMode.REQUIRED),
    "odd": ({"_meta": {"taskhub/task": ["always"]}}, TaskMode.AUTO),
    "odder": ({"_meta": "taskhub/task"}, TaskMode.AUTO),
}


@pytest.fixture
def server() -> Server:
    return make_server(make_tenant())


def listing(server: Server) -> bool:
    tools = [vetted({"name": name, "inputSchema": {"type": "object"}, **more}) for name, (more, _) in SAID.items()]
    return store_snapshot(server.pk, protocol="2025-11-25", info={}, tools=tools)


def modes(server: Server) -> dict[str, TaskMode]:
    forget_catalogues()
    return {tool.name: tool.mode for tool in catalogue(server.tenant_id).tools}


def as_it_was_read_before(server: Server) -> None:
    for name, mode in {"forbidden": "never", "optional": "auto", "required": "always"}.items():
        assert Tool.objects.filter(server=server, name=name).update(hint_mode=mode)


def test_what_a_server_says_of_itself_never_limits_what_its_tools_are_offered_as(server: Server) -> None:
    listing(server)
    assert modes(server) == {name: mode for name, (_, mode) in SAID.items()}
    Tool.objects.filter(server=server, name="forbidden").update(policy_mode="never")
    assert modes(server)["forbidden"] is TaskMode.NEVER


def test_whoever_listens_hears_that_a_mode_has_changed(server: Server) -> None:
    listing(server)
    forget_catalogues()
    before = catalogue(server.tenant_id)
    Tool.objects.filter(server=server, name="nothing").update(policy_mode="required")
    forget_catalogues()
    after = catalogue(server.tenant_id)
    assert after.digest != before.digest
    hidden = {tool.name for tool in after.tools} - {tool.name for tool in after.plain_tools}
    assert hidden == {"nothing", "needed"}


def test_a_tool_that_was_read_differently_is_read_anew_though_nothing_changed_at_its_server(server: Server) -> None:
    listing(server)
    as_it_was_read_before(server)
    assert listing(server)
    assert modes(server) == {name: mode for name, (_, mode) in SAID.items()}
    assert not listing(server)


def test_a_derived_name_changes_no_server() -> None:
    tenant = make_tenant()

    def connect(name: str, target: str, *, named: bool = False) -> int:
        return connect_server(
            tenant_id=tenant.pk, name=name, transport="stdio", target=target, actor=WORKER, named=named
        )

    first = connect("files", "files --all")
    assert connect("files", "files --all") == first, "the same spec again"
    with pytest.raises(Refused, match=r"There is a server named files already, stdio:files --all\. Write NAME=SPEC"):
        connect("files", "files --some")
    assert list(Server.objects.filter(tenant=tenant).values_list("name", "target")) == [("files", "files --all")]
    # One that an earlier version named otherwise, or a person, is not added a second time.
    named = connect("npx", "npx -y @acme/notes", named=True)
    assert connect("notes", "npx -y @acme/notes") == named
    # Who gives the name may mean that server.
    assert connect("files", "files --some", named=True) == first
    assert Server.objects.get(pk=first).target == "files --some"


def test_a_server_is_added_in_one_way_whoever_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    told = {"transport": "http", "target": "https://a.example/mcp", "prefix": "", "token": False}
    connect_server(tenant_id=tenant.pk, name="one", transport="http", target="https://a.example/mcp", actor=WORKER)
    policies.add_server(tenant_id=tenant.pk, name="two", spec="https://a.example/mcp", actor=WORKER)
    assert list(Event.objects.filter(action="server.added").values_list("after", flat=True)) == [told, told]
    monkeypatch.setattr(servers, "MAX_SERVERS", 2)
    with pytest.raises(Refused, match="There are 2 servers already"):
        connect_server(tenant_id=tenant.pk, name="three", transport="stdio", target="x", actor=WORKER)
    with pytest.raises(Refused, match="There are 2 servers already"):
        policies.add_server(tenant_id=tenant.pk, name="three", spec="stdio:x", actor=WORKER)
    with pytest.raises(Refused, match="There is a server named two already"):
        policies.add_server(tenant_id=tenant.pk, name="two", spec="stdio:x", actor=WORKER)
    connect_server(tenant_id=tenant.pk, name="two", transport="stdio", target="x", actor=WORKER)
    changed = Event.objects.get(action="server.changed")
    assert (changed.target, changed.after) == ("two", {"transport": "stdio", "target": "x"})


def test_a_token_does_not_follow_a_name_to_another_address() -> None:
    tenant = make_tenant()

    def connect(target: str) -> int:
        return connect_server(tenant_id=tenant.pk, name="notes", transport="http", target=target, actor=WORKER)

    first = connect("https://a.example/mcp")
    Server.objects.filter(pk=first).update(credentials=b"x")
    assert connect("https://a.example/mcp") == first
    assert Server.objects.get(pk=first).credentials is not None
    assert connect("https://b.example/mcp") == first
    assert Server.objects.get(pk=first).credentials is None


def test_a_server_away_says_why_and_it_is_on_record_once_until_it_was_back(server: Server) -> None:
    listing(server)
    for problem in ("connection refused", "no such host", "no such host"):
        servers.store_problem(server.pk, problem)
        server.refresh_from_db()
        assert (server.state, server.problem) == ("unreachable", problem)
    events = Event.objects.filter(action="server.unreachable")
    assert [event.after for event in events] == [{"problem": "connection refused"}]
    listing(server)
    server.refresh_from_db()
    assert (server.state, server.problem) == ("ready", "")
    servers.store_problem(server.pk, "connection refused")
    assert events.all().count() == 2
    servers.store_problem(server.pk, "HTTP 401", state="unauthorized")
    server.refresh_from_db()
    assert (server.state, server.problem) == ("unauthorized", "HTTP 401")
    assert Event.objects.get(action="server.unauthorized").after == {"problem": "HTTP 401"}
