"""What a client sees of a hub is the same with a hidden server of the same names and without it: names of tools and
prompts, addresses of resources, and what is answered by each name, in every revision and by REST."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.approvals import Api
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.policies import rules_in_force
from tests.support.sep_2557_client import Historical
from tests.support.session import SessionClient

pytestmark = pytest.mark.processes

WORDS = ("look", "peer", "gaze", "stare", "tell", "say", "whisper", "shout")
NAMES = tuple(f"{server}{word}" for word in WORDS for server in ("", "seen__", "closed__"))
URIS = ("sake://one", "sake://about/x", "sake://about/secrets", "sake://two", "other://one", "nobody://one")
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
HIDES = {"name": "closed", "when": "client.name == 'agent-b' && server.name == 'closed'", "then": "hide"}
Ask = Callable[[str, dict[str, Any]], Any]


def asked() -> Iterator[tuple[str, dict[str, Any]]]:
    for method in LISTS:
        yield method, {}
    for name in NAMES:
        yield "tools/call", {"name": name, "arguments": {}}
        yield "prompts/get", {"name": name}
        ref = {"type": "ref/prompt", "name": name}
        yield "completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}}
    for uri in URIS:
        yield "resources/read", {"uri": uri}
    for uri in ("sake://about/{what}", "other://about/{what}", "nobody://{what}"):
        ref = {"type": "ref/resource", "uri": uri}
        yield "completion/complete", {"ref": ref, "argument": {"name": "what", "value": ""}}


def answers(ask: Ask) -> dict[str, Any]:
    """What the client is told, by what it asks; lists as a whole."""
    found = {}
    for method, params in asked():
        told = ask(method, params).messages[-1]
        said = told.get("error") or {key: value for key, value in told["result"].items() if key != "_meta"}
        while method in LISTS and "nextCursor" in said:
            told = ask(method, {"cursor": said.pop("nextCursor")}).messages[-1]["result"]
            said = {key: said[key] + value if isinstance(value, list) else value for key, value in told.items()}
            said.pop("_meta", None)
        found[f"{method} {json.dumps(params)}"] = said
    return found


def told(hub: RunningHub) -> dict[str, Any]:
    """All that agent-b is told, by every way in."""
    token = hub.tokens["agent-b"]
    found: dict[str, Any] = {}
    with Client(hub.base, token) as client, Historical(hub.base, token) as historical:
        found |= {"2026-07-28": answers(client.call), "sep-2557": answers(historical.call)}
    for version in ("2025-11-25", "2025-06-18", "2025-03-26"):
        with SessionClient(hub.base, token, version=version) as session:
            found[version] = answers(session.call)
    api = Api(hub)
    api.token = hub.token("agent-b", "approvals:request")
    for server in ("seen", "closed"):
        for tool in WORDS[:4]:
            status, said = api.send("POST", "/approvals", {"server": server, "tool": tool, "arguments": {}})
            found[f"{server}/{tool}"] = status if status < 300 else (status, said)
    return found


@pytest.mark.req("B25-26", "B26-49")
def test_a_hub_with_a_hidden_server_of_the_same_names_is_as_one_without_it(hub: RunningHub, alice: Client) -> None:
    def names() -> set[str]:
        return {item["name"] for item in alice.call("tools/list", {}).result["tools"]}

    def add(name: str, target: str, *words: str) -> None:
        hub.manage("server", "add", f"{name}=python:tests.support.namesakes:{target}", *words)
        tool = {"seen": "peer", "hidden": "gaze", "apart": "stare"}[target]
        wait_until(lambda: any(one.endswith(tool) for one in names()), f"{target} to be listed")

    worlds, of_both = {}, set()
    with rules_in_force(hub, HIDES):
        for world in ("hidden", "apart", ""):
            try:
                if world:
                    add("closed", world)
                add("seen", "seen")
                worlds[world] = told(hub)
                if world == "hidden":
                    of_both = names()
            finally:
                hub.manage("server", "remove", "seen")
                if world:
                    hub.manage("server", "remove", "closed")
    shown = worlds[""]["2026-07-28"]
    assert "said by seen" in str(shown['tools/call {"name": "seen__look", "arguments": {}}'])
    assert "said by seen" in str(shown['prompts/get {"name": "seen__tell"}'])
    assert "seen about secrets" in str(shown['resources/read {"uri": "sake://about/secrets"}'])
    for world in ("hidden", "apart"):
        for way, said in worlds[world].items():
            assert said == worlds[""][way], (world, way)
    assert {"closed__look", "seen__look"} <= of_both, "who may see both can tell them apart"
    assert "look" not in of_both
