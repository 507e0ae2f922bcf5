"""Rules, as clients of each revision meet them: what is hidden, denied, asked about and allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub
from tests.support.policies import rules_in_force
from tests.support.session import SessionClient

pytestmark = pytest.mark.processes

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
HIDDEN = "greet"
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
RULES: tuple[dict[str, Any], ...] = (
    {"name": "no Ann", "when": "tool.name == 'greet' && args.name == 'Ann'", "then": "deny", "shadow": True},
    {"name": "not extra", "when": "client.name == 'agent-b' && server.name == 'extra'", "then": "hide"},
    {"name": "agent-b does not greet", "when": f"client.name == 'agent-b' && tool.name == '{HIDDEN}'", "then": "hide"},
    {
        "name": "nobody greets Eve",
        "when": "tool.name == 'greet' && args.name == 'Eve'",
        "then": "deny",
        "words": "Eve is away; greet somebody else.",
    },
    {
        "name": "long work is asked about",
        "when": "tool.name == 'lengthy' && args.seconds >= 900.0",
        "then": "ask",
        "group": "ops",
    },
)


@pytest.fixture(scope="module", autouse=True)
def _ruled(hub: RunningHub) -> Iterator[None]:
    with rules_in_force(hub, *RULES):
        yield


@pytest.fixture(params=VERSIONS)
def sessions(hub: RunningHub, request: pytest.FixtureRequest) -> Iterator[tuple[SessionClient, SessionClient]]:
    """A session of each client, in each version of 2025."""
    tokens = hub.tokens
    with (
        SessionClient(hub.base, tokens["agent-a"], version=request.param) as first,
        SessionClient(hub.base, tokens["agent-b"], version=request.param) as second,
    ):
        yield first, second


def listed(client: Client | SessionClient, method: str) -> set[str]:
    found: set[str] = set()
    params: dict[str, Any] = {}
    while True:
        page = client.call(method, params).result
        found |= {item.get("uri") or item.get("uriTemplate") or item["name"] for item in page[LISTS[method]]}
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


@pytest.mark.req("B26-45")
def test_lists_hold_what_the_client_may_see(alice: Client, bob: Client) -> None:
    for method in LISTS:
        everything, part = listed(alice, method), listed(bob, method)
        assert part < everything, method
    assert listed(alice, "tools/list") - listed(bob, "tools/list") >= {HIDDEN}


@pytest.mark.req("B25-27")
def test_lists_of_2025_hold_what_the_client_may_see(sessions: tuple[SessionClient, SessionClient]) -> None:
    first, second = sessions
    for method in LISTS:
        assert listed(second, method) < listed(first, method), method
    assert HIDDEN in listed(first, "tools/list") - listed(second, "tools/list")


def _errors(client: Client | SessionClient, method: str, hidden: dict[str, Any], unknown: dict[str, Any]) -> None:
    found = [client.call(method, params) for params in (hidden, unknown)]
    words = []
    for answer, params in zip(found, (hidden, unknown), strict=True):
        name = params.get("name") or params.get("uri") or params["ref"].get("name") or params["ref"]["uri"]
        error = dict(answer.error)
        error["message"] = error["message"].replace(name, "NAME")
        if "data" in error:
            error["data"] = str(error["data"]).replace(name, "NAME")
        words.append((answer.status, error))
    assert words[0] == words[1], method


HIDDEN_CALLS = (
    ("tools/call", {"name": HIDDEN, "arguments": {"name": "x"}}, {"name": "no-such", "arguments": {"name": "x"}}),
    ("prompts/get", {"name": "ask_both"}, {"name": "no-such"}),
    ("resources/read", {"uri": "extra://note"}, {"uri": "nobody://note"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "ask_both"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "no-such"}, "argument": {"name": "a", "value": ""}},
    ),
)

ANY = {"name": "what", "value": ""}
MORE_HIDDEN = (
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "extra://asks/{what}"}, "argument": ANY},
        {"ref": {"type": "ref/resource", "uri": "nobody://asks/{what}"}, "argument": ANY},
    ),
    ("resources/subscribe", {"uri": "extra://note"}, {"uri": "nobody://note"}),
    ("resources/unsubscribe", {"uri": "extra://note"}, {"uri": "nobody://note"}),
)
"""Of sessions, beside `HIDDEN_CALLS`."""


@pytest.mark.req("B25-26", "B25-27")
def test_on_a_session_nothing_tells_what_is_hidden(sessions: tuple[SessionClient, SessionClient]) -> None:
    for method, hidden, unknown in MORE_HIDDEN:
        found = []
        for params in (hidden, unknown):
            name = params.get("uri") or params["ref"]["uri"]
            answer = sessions[1].call(method, params)
            said = {key: value for key, value in answer.messages[-1].items() if key != "id"}
            found.append((answer.status, json.dumps(said).replace(json.dumps(name)[1:-1], "NAME")))
        assert found[0] == found[1], method


@pytest.mark.parametrize(("method", "hidden", "unknown"), HIDDEN_CALLS, ids=[call[0] for call in HIDDEN_CALLS])
@pytest.mark.req("B26-45", "B26-49")
def test_what_is_hidden_cannot_be_told_from_what_does_not_exist(
    bob: Client, method: str, hidden: dict[str, Any], unknown: dict[str, Any]
) -> None:
    _errors(bob, method, hidden, unknown)


@pytest.mark.parametrize(("method", "hidden", "unknown"), HIDDEN_CALLS, ids=[call[0] for call in HIDDEN_CALLS])
@pytest.mark.req("B25-26")
def test_in_2025_what_is_hidden_cannot_be_told_from_what_does_not_exist(
    sessions: tuple[SessionClient, SessionClient], method: str, hidden: dict[str, Any], unknown: dict[str, Any]
) -> None:
    _errors(sessions[1], method, hidden, unknown)


@pytest.mark.req("B26-49")
def test_a_denied_call_makes_no_task_and_says_why(alice: Client, hub: RunningHub) -> None:
    before = hub.sql("SELECT max(id) FROM task")
    for caps in ({}, TASKS):
        found = alice.tool(HIDDEN, {"name": "Eve"}, caps=caps).result
        assert found["isError"] is True
        assert found["content"][0]["text"] == "Not called: Eve is away; greet somebody else."
    assert hub.sql("SELECT max(id) FROM task") == before
    recorded = "SELECT target, after->>'doubt', actor FROM event WHERE after->>'rule' = 'nobody greets Eve'"
    assert hub.sql(recorded) == [("greet", "false", "agent-a")], "once in a minute"


@pytest.mark.req("B26-49")
def test_a_rule_on_trial_lets_the_call_run_and_is_recorded(alice: Client, hub: RunningHub) -> None:
    assert "Hello" in str(alice.tool(HIDDEN, {"name": "Ann"}).result["content"])
    recorded = "SELECT target, after->'rules', actor FROM event WHERE action = 'rules.tried' ORDER BY id DESC LIMIT 1"
    assert hub.sql(recorded) == [("greet", ["no Ann"], "agent-a")]


@pytest.mark.req("B25-26")
def test_in_2025_a_denied_call_says_why(sessions: tuple[SessionClient, SessionClient]) -> None:
    found = sessions[0].call("tools/call", {"name": HIDDEN, "arguments": {"name": "Eve"}}).result
    assert found["isError"] is True
    assert found["content"][0]["text"] == "Not called: Eve is away; greet somebody else."


@pytest.mark.req("T26-12")
def test_a_call_waits_for_the_people_whom_its_rule_names(alice: Client, hub: RunningHub) -> None:
    made = alice.tool("lengthy", {"seconds": 900}, caps=TASKS).result
    assert made["resultType"] == "task"
    assert made["statusMessage"] == "Waiting for approval by ops, 0 of 1"
    asked = 'SELECT q.params, q."group" FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s'
    params, group = hub.sql(asked, [made["taskId"]])[0]
    version = hub.sql("SELECT max(number) FROM rule_version")[0][0]
    says = {"expires_minutes": 1_440, "otherwise": "deny", "named": {"seconds": 900}}
    assert params["decided"] == {"rule": "long work is asked about", "version": version, "doubt": False, **says}
    assert group == "ops"
    alice.cancel(made["taskId"])
    quick = alice.tool("lengthy", {"seconds": 0}, caps=TASKS).result
    assert "approval" not in quick.get("statusMessage", "")
