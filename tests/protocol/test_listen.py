"""`subscriptions/listen` over HTTP."""

from __future__ import annotations

import concurrent.futures
import contextlib
import secrets
import threading
from typing import Any

import pytest

from tests.support.client import EVERYTHING, EXTENSION, NONE, TASKS, TERMINAL, Client, Frames, accept
from tests.support.hub import RunningHub, wait_until
from tests.support.web import web

pytestmark = pytest.mark.processes

LISTEN = "subscriptions/listen"
UNKNOWN = "A" * 32


def _filter(**notifications: Any) -> dict[str, Any]:
    return {"notifications": notifications}


def _acknowledged(stream: Frames) -> dict[str, Any]:
    note = stream.next()
    assert note["method"] == "notifications/subscriptions/acknowledged"
    found: dict[str, Any] = note["params"]["notifications"]
    return found


def _task(stream: Frames) -> dict[str, Any]:
    note = stream.next()
    assert note["method"] == "notifications/tasks"
    found: dict[str, Any] = note["params"]
    return found


def _listed(client: Client) -> bool:
    return "test_dynamic_tool" in {tool["name"] for tool in client.call("tools/list").result["tools"]}


def _toggle(client: Client) -> None:
    """Change the list of tools, and wait until the change is there."""
    before = _listed(client)
    assert client.tool("test_trigger_tool_change").result["isError"] is False
    wait_until(lambda: _listed(client) is not before, "the list to change")


@pytest.mark.req("B26-70", "B26-71", "T26-49", "T26-52", "T26-23", "T26-24", "T26-25", "T26-17")
def test_a_task_is_told_from_where_it_stands_to_its_result(alice: Client) -> None:
    task_id = alice.create("confirm_delete", {"filename": "x"})
    shown = alice.until(task_id, "input_required")
    with alice.stream(LISTEN, _filter(taskIds=[task_id]), caps=TASKS) as stream:
        assert _acknowledged(stream) == {"taskIds": [task_id]}
        first = _task(stream)
        assert {key: first[key] for key in first if key != "_meta"} == {
            key: shown[key] for key in shown if key not in ("_meta", "resultType")
        }
        alice.update(task_id, {"confirm": accept(confirm=True)})
        seen = [first["status"]]
        while seen[-1] not in TERMINAL:
            last = _task(stream)
            seen.append(last["status"])
        assert seen[-1] == "completed"
        assert last["result"]["content"][0]["text"] == "Deleted x"
        assert last["result"] == alice.get(task_id).result["result"]


@pytest.mark.parametrize(
    ("tool", "payload"), [("failing_job", "result"), ("protocol_error_job", "error")], ids=["result", "error"]
)
@pytest.mark.req("T26-49", "T26-52", "T26-25", "T26-27")
def test_an_ended_task_is_told_at_once_with_its_outcome(alice: Client, tool: str, payload: str) -> None:
    task_id = alice.create(tool)
    found = alice.until(task_id, *TERMINAL)
    with alice.stream(LISTEN, _filter(taskIds=[task_id]), caps=TASKS) as stream:
        assert _acknowledged(stream) == {"taskIds": [task_id]}
        assert _task(stream)[payload] == found[payload]


@pytest.mark.parametrize("id", [1, 0, -7, 2**53, "1", "listen", "ü", ""])
@pytest.mark.req("B26-72")
def test_the_subscription_wears_the_id_of_its_request(alice: Client, id: str | int) -> None:
    # The client compares value and type on every message.
    task_id = alice.create("failing_job")
    with alice.stream(LISTEN, _filter(taskIds=[task_id]), caps=TASKS, id=id) as stream:
        _acknowledged(stream)
        while _task(stream)["status"] not in TERMINAL:
            pass


@pytest.mark.req("T26-50", "T26-20", "B26-73")
def test_foreign_and_unknown_tasks_are_dropped_in_silence(alice: Client, bob: Client) -> None:
    theirs = bob.create("confirm_delete", {"filename": "x"})
    bob.until(theirs, "input_required")
    mine = alice.create("confirm_delete", {"filename": "x"})
    alice.until(mine, "input_required")
    wanted = [theirs, mine, UNKNOWN, "\u0000" * 30, "x", mine]
    with alice.stream(LISTEN, _filter(taskIds=wanted), caps=TASKS) as stream:
        assert _acknowledged(stream) == {"taskIds": [mine]}
        assert _task(stream)["taskId"] == mine
        bob.cancel(theirs)
        alice.cancel(mine)
        # Had the foreign task been told, it would have come first.
        assert (_task(stream)["taskId"], alice.get(mine).result["status"]) == (mine, "cancelled")


@pytest.mark.req("T26-50", "T26-20")
def test_a_foreign_task_is_acknowledged_exactly_as_one_that_never_was(alice: Client, bob: Client) -> None:
    theirs = bob.create("failing_job")
    seen = []
    for task_id in (theirs, UNKNOWN):
        with alice.stream(LISTEN, _filter(taskIds=[task_id]), caps=TASKS, id="same") as stream:
            seen.append((stream.next(), sorted(set(stream.response.headers) - {"date"})))
    assert seen[0] == seen[1]


@pytest.mark.req("T26-07", "T26-06", "B26-30")
def test_tasks_are_told_only_to_who_declares_the_extension(alice: Client) -> None:
    for caps in (NONE, {"tasks": {}}):
        answer = alice.call(LISTEN, _filter(taskIds=["gate-test"]), caps=caps)
        assert answer.refusal == (400, -32021)
        assert answer.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        assert not answer.streamed


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"taskIds": "x"}},
        {"notifications": {"taskIds": [7]}},
        {"notifications": {"taskIds": {}}},
        {"notifications": {"taskIds": ["x"] * 101}},
        {"notifications": {"resourceSubscriptions": "x://1"}},
        {"notifications": {"resourceSubscriptions": [7]}},
        {"notifications": {"resourceSubscriptions": ["x://1"] * 101}},
    ],
)
@pytest.mark.req("B26-70")
def test_a_malformed_filter_is_refused_before_the_stream(alice: Client, params: dict[str, Any]) -> None:
    answer = alice.call(LISTEN, params, caps=TASKS)
    assert (answer.refusal, answer.streamed) == ((200, -32602), False)


@pytest.mark.req("B26-71", "B26-73", "B26-43")
def test_only_what_was_asked_for_and_is_offered_is_honoured(alice: Client) -> None:
    everything = _filter(
        toolsListChanged=True,
        promptsListChanged=True,
        resourcesListChanged=True,
        resourceSubscriptions=["test://watched-resource", "nobody://knows", "test://watched-resource", "\u0000"],
        taskIds=[],
        tasksStatus=True,
    )
    with alice.stream(LISTEN, everything, caps=EVERYTHING) as stream:
        assert _acknowledged(stream) == {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": ["test://watched-resource"],
            "taskIds": [],
        }
    for nothing in (_filter(), _filter(toolsListChanged=False), _filter(toolsListChanged="yes")):
        with alice.stream(LISTEN, nothing) as stream:
            assert _acknowledged(stream) == {}


@pytest.mark.req("B26-73", "B26-75", "B26-76")
def test_a_changed_list_of_tools_is_told_to_all_who_asked_and_nobody_else(hub: RunningHub, alice: Client) -> None:
    task_id = alice.create("confirm_delete", {"filename": "marker"})
    alice.until(task_id, "input_required")
    before = _listed(alice)
    with (
        Client(hub.base, alice.token) as other,
        alice.stream(LISTEN, _filter(toolsListChanged=True), id="one") as one,
        other.stream(LISTEN, _filter(toolsListChanged=True), id="two") as two,
        other.stream(LISTEN, _filter(promptsListChanged=True, taskIds=[task_id]), caps=TASKS) as deaf,
    ):
        for stream in (one, two, deaf):
            _acknowledged(stream)
        _task(deaf)
        _toggle(alice)
        for stream in (one, two):
            assert stream.next()["method"] == "notifications/tools/list_changed"
        alice.cancel(task_id)
        # What comes next on the stream that did not ask is the marker.
        assert _task(deaf)["status"] == "cancelled"
        _toggle(alice)
        assert one.next()["method"] == "notifications/tools/list_changed"
    assert _listed(alice) is before


@pytest.mark.req("B26-75", "T26-46")
def test_there_is_a_limit_to_the_streams_of_one_client(hub: RunningHub) -> None:
    token = hub.token(f"listener-{secrets.token_hex(4)}", "tasks:read")
    with Client(hub.base, token) as client, contextlib.ExitStack() as open_streams:
        held = [open_streams.enter_context(client.stream(LISTEN, _filter())) for _ in range(20)]
        for stream in held:
            _acknowledged(stream)
        refused = client.call(LISTEN, _filter())
        assert refused.refusal == (429, 42900)
        assert int(refused.headers["retry-after"]) > 0
        assert client.call("server/discover").status == 200
        open_streams.close()
        wait_until(lambda: _can_listen(client), "the streams to be gone")


@pytest.mark.req("B26-75")
def test_streams_opened_at_once_do_not_slip_past_the_limit(hub: RunningHub) -> None:
    token = hub.token(f"crowd-{secrets.token_hex(4)}", "tasks:read")
    together = threading.Barrier(30)

    def one(_: int) -> int:
        with Client(hub.base, token) as client:
            client.call("server/discover")
            message = client.message(LISTEN, _filter())
            together.wait(20)
            with client._http.stream(
                "POST", f"{client.base}/mcp", json=message, headers=client.headers(message)
            ) as response:
                together.wait(20)
                return response.status_code

    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        assert sorted(pool.map(one, range(30))) == [200] * 20 + [429] * 10


def _can_listen(client: Client) -> bool:
    message = client.message(LISTEN, _filter())
    with client._http.stream("POST", f"{client.base}/mcp", json=message, headers=client.headers(message)) as response:
        return response.status_code == 200


@pytest.mark.req("B26-74", "B26-72", "B26-71")
def test_a_server_that_stops_ends_its_streams_with_a_result(hub: RunningHub) -> None:
    with (
        web(hub) as stopping,
        Client(stopping.base, hub.tokens["agent-a"]) as client,
        contextlib.ExitStack() as stack,
    ):
        streams = {
            name: stack.enter_context(client.stream(LISTEN, _filter(**wanted), id=name))
            for name, wanted in {"idle": {}, "tools": {"toolsListChanged": True}}.items()
        }
        for stream in streams.values():
            _acknowledged(stream)
        stopping.end()
        for name, stream in streams.items():
            (last,) = stream.rest()
            assert last["result"] == {
                "resultType": "complete",
                "_meta": {"io.modelcontextprotocol/subscriptionId": name},
            }
