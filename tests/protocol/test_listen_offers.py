"""What `subscriptions/listen` tells of prompts and resources; and what several servers offer together."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Client, Frames
from tests.support.hub import EXTRA, FIXTURES, RunningHub, wait_until

pytestmark = pytest.mark.processes

LISTEN = "subscriptions/listen"
UPDATED = "notifications/resources/updated"


def _open(stream: Frames) -> dict[str, Any]:
    note = stream.next()
    assert note["method"] == "notifications/subscriptions/acknowledged"
    found: dict[str, Any] = note["params"]["notifications"]
    return found


def _filter(**notifications: Any) -> dict[str, Any]:
    return {"notifications": notifications}


@pytest.mark.req("B26-70", "B26-73", "B26-76")
def test_a_changed_list_of_prompts_is_told_and_is_then_the_new_one(alice: Client) -> None:
    def names() -> set[str]:
        return {prompt["name"] for prompt in alice.call("prompts/list").result["prompts"]}

    with (
        alice.stream(LISTEN, _filter(promptsListChanged=True)) as stream,
        alice.stream(LISTEN, _filter(resourcesListChanged=True, toolsListChanged=True)) as deaf,
    ):
        _open(stream)
        _open(deaf)
        for there in (True, False):
            assert alice.tool("test_trigger_prompt_change").result["isError"] is False
            assert stream.next()["method"] == "notifications/prompts/list_changed"
            assert ("test_dynamic_prompt" in names()) is there
        alice.tool("change_resources")
        # Had prompts been told to the other stream too, they would have come first.
        assert deaf.next()["method"] == "notifications/resources/list_changed"


@pytest.mark.req("B26-70", "B26-73")
def test_a_changed_list_of_resources_is_told(alice: Client) -> None:
    with alice.stream(LISTEN, _filter(resourcesListChanged=True)) as stream:
        _open(stream)
        uri = alice.tool("change_resources").text
        assert stream.next()["method"] == "notifications/resources/list_changed"
        assert uri in {resource["uri"] for resource in alice.call("resources/list").result["resources"]}
    assert alice.call("resources/read", {"uri": uri}).result["contents"][0]["text"] == "more"


@pytest.mark.req("B26-72", "B26-73", "B26-75", "B26-76")
def test_a_changed_resource_is_told_to_who_asked_for_it(hub: RunningHub, alice: Client, bob: Client) -> None:
    note, watched = "extra://note", "test://watched-resource"
    with (
        alice.stream(LISTEN, _filter(resourceSubscriptions=[note, watched]), id="one") as one,
        bob.stream(LISTEN, _filter(resourceSubscriptions=[note]), id=2) as two,
        bob.stream(LISTEN, _filter(resourceSubscriptions=[watched])) as deaf,
    ):
        assert [_open(stream)["resourceSubscriptions"] for stream in (one, two, deaf)] == [
            [note, watched],
            [note],
            [watched],
        ]
        alice.tool("touch", {"uri": "extra://asks/other"})
        alice.tool("touch")
        for stream in (one, two):
            told = stream.next()
            assert (told["method"], told["params"]["uri"]) == (UPDATED, note)
    # Whoever goes away is not followed any more.
    wait_until(lambda: hub.sql("SELECT count(*) FROM interest") == [(0,)], "the interests to end")


@pytest.mark.req("B26-71", "B26-75")
def test_a_stream_of_one_filter_does_not_disturb_another(alice: Client) -> None:
    with alice.stream(LISTEN, _filter(resourceSubscriptions=["extra://note"])) as outer:
        _open(outer)
        with alice.stream(LISTEN, _filter(resourceSubscriptions=["extra://note", "extra://asks/x"])) as inner:
            assert _open(inner)["resourceSubscriptions"] == ["extra://note", "extra://asks/x"]
            alice.tool("touch", {"uri": "extra://asks/x"})
            assert inner.next()["params"]["uri"] == "extra://asks/x"
        alice.tool("touch")
        assert outer.next()["params"]["uri"] == "extra://note"


# --- several servers, one of them old


@pytest.fixture(scope="module")
def pipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipes")


@pytest.fixture(scope="module")
def crowd(pipes: Path) -> Iterator[RunningHub]:
    """The fixtures, the same once more as `twin`, and a server of 2025 that is a command."""
    old = f"old=stdio:{sys.executable} -m tests.upstream.old_library {pipes}"
    running = RunningHub(servers=(FIXTURES, f"twin={FIXTURES}", old, EXTRA))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def carol(crowd: RunningHub) -> Iterator[Client]:
    with Client(crowd.base, crowd.tokens["agent-a"]) as client:
        yield client


def tell(pipes: Path, line: str) -> None:
    """Have every process of the old server announce it; those that have ended have left their pipes."""
    for pipe in pipes.iterdir():
        pid = int(pipe.stem)
        if Path(f"/proc/{pid}").exists():
            pipe.write_text(line + "\n")


def _prompts(client: Client) -> list[str]:
    """All pages."""
    names: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = client.call("prompts/list", params).result
        names += [prompt["name"] for prompt in page["prompts"]]
        if "nextCursor" not in page:
            return names
        assert len(page["prompts"]) == 100
        params = {"cursor": page["nextCursor"]}


@pytest.mark.req("B26-45", "B26-51")
def test_prompts_that_collide_wear_their_servers_name(carol: Client) -> None:
    names = _prompts(carol)
    assert {"test_simple_prompt", "twin__test_simple_prompt", "old_prompt"} <= set(names)
    assert len(names) == len(set(names))
    answer = carol.call("prompts/get", {"name": "twin__test_simple_prompt"})
    assert answer.result["messages"][0]["content"]["text"] == "This is a simple prompt for testing."
    ref = {"type": "ref/prompt", "name": "twin__test_prompt_with_arguments"}
    completed = carol.call("completion/complete", {"ref": ref, "argument": {"name": "arg1", "value": "pa"}})
    assert completed.result["completion"]["values"] == ["paris", "park"]


@pytest.mark.req("B26-45")
def test_a_uri_that_two_servers_offer_is_listed_once(carol: Client, crowd: RunningHub) -> None:
    uris = [resource["uri"] for resource in carol.call("resources/list").result["resources"]]
    assert uris.count("test://static-text") == 1
    assert len(uris) == len(set(uris))
    assert crowd.sql("SELECT count(*) FROM offer WHERE key = 'test://static-text'") == [(2,)]


@pytest.mark.req("B26-40", "B26-44", "B26-50", "B26-51")
def test_an_old_server_speaks_the_new_wire_through_us(carol: Client) -> None:
    resources = {item["uri"]: item for item in carol.call("resources/list").result["resources"]}
    assert resources["old://file"] == {
        "uri": "old://file",
        "name": "file",
        "mimeType": "text/plain",
        "size": 3,
        "x-old": [1],
    }
    read = carol.call("resources/read", {"uri": "old://file"}).result
    assert read["contents"] == [{"uri": "old://file", "text": "old", "_meta": {"x/y": 1}}]
    assert (read["resultType"], read["ttlMs"], read["cacheScope"], read["x-old"]) == ("complete", 0, "private", "kept")
    # Nobody lists it, but it has the scheme of one who might know.
    assert carol.call("resources/read", {"uri": "old://file/unlisted"}).result["contents"][0]["text"] == "old"
    missing = carol.call("resources/read", {"uri": "old://nothing"})
    assert (missing.refusal, missing.error["data"]) == ((200, -32602), {"uri": "old://nothing"})
    prompt = carol.call("prompts/get", {"name": "old_prompt", "arguments": {"who": "Ada"}}).result
    assert prompt["messages"][0]["content"]["text"] == "For Ada"


@pytest.mark.req("B26-73", "B26-76")
def test_an_old_servers_announcements_reach_a_new_client(carol: Client, pipes: Path) -> None:
    with carol.stream(LISTEN, _filter(resourceSubscriptions=["old://file", "old://dir"])) as stream:
        assert _open(stream)["resourceSubscriptions"] == ["old://file", "old://dir"]
        tell(pipes, "updated old://dir/part")
        assert stream.next()["params"]["uri"] == "old://dir"
        tell(pipes, "updated old://file")
        assert stream.next()["params"]["uri"] == "old://file"


@pytest.mark.req("B26-46")
def test_a_long_list_comes_in_pages(carol: Client, crowd: RunningHub) -> None:
    crowd.sql(
        "INSERT INTO offer (server_id, kind, key, exposed_name, position, definition, digest)"
        " SELECT s.id, 'prompt', 'many-' || n, 'many-' || n, 1000 + n, json_build_object('name', 'many-' || n), ''"
        " FROM generate_series(1, 230) n, (SELECT id FROM server WHERE name = 'twin') s RETURNING id"
    )
    crowd.sql("SELECT pg_notify('taskhub', 'c')")
    names = wait_until(lambda: (found := _prompts(carol)) and len(found) > 230 and found, "the new prompts")
    assert len(names) == len(set(names))
    first = carol.call("prompts/list").result["nextCursor"]
    # A cursor belongs to its list.
    assert carol.call("resources/list", {"cursor": first}).refusal == (200, -32602)
    assert carol.call("prompts/list", {"cursor": first + secrets.token_hex(1)}).refusal == (200, -32602)
