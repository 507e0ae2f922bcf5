"""What operators change about servers and tools: once, with an event, and for their own tenant alone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from taskhub.core.errors import Invalid, NotFound, Refused
from taskhub.core.policy import Policy, mark_of
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.catalogue import writes as policies
from taskhub.domain.catalogue.reads import LOST
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.store.models import Event, Server, Tool
from tests.factories import make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db

OPERATOR = Actor(name="ada", door=Door.WEB)


@pytest.fixture
def tool() -> Tool:
    return Tool.objects.select_related("server").get(pk=make_tool(make_server(make_tenant(), "files"), "read").id)


@pytest.fixture
def remote() -> Server:
    """A server with a URL, which alone may be sent a token."""
    made = policies.add_server(
        tenant_id=make_tenant().pk, name=" notes ", spec="https://a.example/mcp", token=" first ", actor=OPERATOR
    )
    return Server.objects.get(pk=made)


def events(*actions: str) -> list[tuple[Any, Any]]:
    """Before and after of each, oldest first."""
    return list(Event.objects.filter(action__in=actions).order_by("id").values_list("before", "after"))


def token_of(server: Server) -> str:
    (row,) = [row for row in enabled_servers() if row.id == server.pk]
    return row.token


def test_a_policy_is_laid_down_once_and_its_event_tells_only_what_changed(tool: Tool) -> None:
    tenant, policy = tool.server.tenant_id, Policy(max_attempts=5, run_seconds=60)
    assert policies.set_tool_policy(tenant_id=tenant, tool_id=tool.pk, policy=policy, actor=OPERATOR)
    assert not policies.set_tool_policy(tenant_id=tenant, tool_id=tool.pk, policy=policy, actor=OPERATOR)
    tool.refresh_from_db()
    assert (tool.max_attempts, tool.run_seconds) == (5, 60)
    told = ({"max_attempts": 3, "run_seconds": 900}, {"max_attempts": 5, "run_seconds": 60})
    assert events("tool.policy.changed") == [told]


def test_a_policy_that_was_changed_since_it_was_seen_is_kept(tool: Tool) -> None:
    tenant, seen = tool.server.tenant_id, mark_of(tool)
    first, second = Policy(max_attempts=5), Policy(max_attempts=7)
    assert policies.set_tool_policy(tenant_id=tenant, tool_id=tool.pk, policy=first, actor=OPERATOR, seen=seen)
    with pytest.raises(Refused, match="Somebody changed the policy of read meanwhile"):
        policies.set_tool_policy(tenant_id=tenant, tool_id=tool.pk, policy=second, actor=OPERATOR, seen=seen)
    tool.refresh_from_db()
    assert tool.max_attempts == 5


def test_nobody_changes_what_another_tenant_has(tool: Tool) -> None:
    foreign = {"tenant_id": make_tenant().pk, "actor": OPERATOR}
    server = tool.server_id
    with pytest.raises(NotFound, match="No such tool"):
        policies.set_tool_policy(tool_id=tool.pk, policy=Policy(enabled=False), **foreign)
    with pytest.raises(NotFound, match="No such server"):
        policies.set_server_enabled(server_id=server, enabled=False, **foreign)
    with pytest.raises(NotFound, match="No such server"):
        policies.set_server_token(server_id=server, token="x", **foreign)
    with pytest.raises(NotFound, match="No such server"):
        policies.set_server_calls(server_id=server, calls_at_once=3, **foreign)
    with pytest.raises(NotFound, match="No such server"):
        policies.request_refresh(server_id=server, **foreign)
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": ".notes"}, "name"),
        ({"name": "n" * 65}, "name"),
        ({"prefix": "two words"}, "prefix"),
        ({"spec": "stdio:notes", "token": "t"}, "token"),
        ({"token": "two words"}, "token"),
        ({"token": "t" * 4_097}, "token"),
    ],
)
def test_what_cannot_be_a_server_is_refused_by_the_name_of_its_field(given: dict[str, str], field: str) -> None:
    wanted = {"name": "notes", "spec": "https://a.example/mcp", **given}
    with pytest.raises(Invalid) as refused:
        policies.add_server(tenant_id=make_tenant().pk, actor=OPERATOR, **wanted)
    assert refused.value.data["field"] == field
    assert not Server.objects.exists()


def test_a_token_is_stored_sealed_and_what_is_told_of_it_is_that_there_is_one(remote: Server) -> None:
    def give(token: str) -> None:
        policies.set_server_token(tenant_id=remote.tenant_id, server_id=remote.pk, token=token, actor=OPERATOR)

    assert (remote.name, token_of(remote)) == ("notes", "first")
    assert b"first" not in bytes(remote.credentials or b"")
    give("second")
    assert token_of(remote) == "second"
    give("")
    give("")  # there is none to take away
    assert token_of(remote) == ""
    yes, no = {"token": True}, {"token": False}
    assert events("server.token.changed") == [(yes, yes), (yes, no)]


def test_how_many_calls_a_server_takes_is_said_once_and_taken_back(remote: Server) -> None:
    def say(most: int | None) -> int:
        where: dict[str, Any] = {"tenant_id": remote.tenant_id, "server_id": remote.pk, "actor": OPERATOR}
        policies.set_server_calls(calls_at_once=most, **where)
        (row,) = enabled_servers()
        return row.calls_at_once

    assert [say(most) for most in (1, 1, 1_000, None)] == [1, 1, 1_000, 20]
    for most in (0, 1_001):
        with pytest.raises(Invalid, match="From 1 to 1,000") as refused:
            say(most)
        assert refused.value.data["field"] == "calls_at_once"
    told = [None, 1, 1_000, None]
    expected = [({"calls_at_once": a}, {"calls_at_once": b}) for a, b in itertools.pairwise(told)]
    assert events("server.calls.changed") == expected


def test_a_new_token_enables_no_server(remote: Server) -> None:
    where: dict[str, Any] = {"tenant_id": remote.tenant_id, "server_id": remote.pk, "actor": OPERATOR}
    policies.set_server_enabled(enabled=False, **where)
    policies.set_server_token(token="second", **where)
    remote.refresh_from_db()
    assert (remote.enabled, remote.state) == (False, "disabled")


def test_a_server_whose_token_is_under_another_key_is_unusable_and_the_others_keep_theirs(
    remote: Server, settings: Any
) -> None:
    settings.SECRET_KEY = "another-key-for-tests-and-nothing-else"
    other = policies.add_server(
        tenant_id=remote.tenant_id, name="other", spec="https://b.example/mcp", token="theirs", actor=OPERATOR
    )
    assert (token_of(remote), token_of(Server.objects.get(pk=other))) == ("", "theirs")
    unusable = {row.name: row.unusable for row in enabled_servers()}
    assert unusable == {"notes": LOST, "other": ""}


def test_a_server_is_disabled_and_enabled_once_and_refreshed_only_while_enabled(tool: Tool) -> None:
    where: dict[str, Any] = {"tenant_id": tool.server.tenant_id, "server_id": tool.server_id, "actor": OPERATOR}
    policies.request_refresh(**where)
    for enabled in (False, False):
        policies.set_server_enabled(enabled=enabled, **where)
    with pytest.raises(Refused, match="files is disabled; enable it first"):
        policies.request_refresh(**where)
    for enabled in (True, True):
        policies.set_server_enabled(enabled=enabled, **where)
    on, off = {"enabled": True, "state": "ready"}, {"enabled": False, "state": "disabled"}
    assert events("server.disabled", "server.enabled") == [(on, off), (off, {"enabled": True, "state": "unknown"})]
    assert len(events("server.refresh.requested")) == 1
