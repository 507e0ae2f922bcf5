"""Clients that know nothing of tasks: they wait, are given an interim result, leave, and come back, on every wire."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import approval_wanted, never_joined
from tests.support.session import SessionClient

WIRES = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
WAIT, GET, LIST, CANCEL, ANSWER = (
    f"taskhub_{name}" for name in ("wait_for_task", "get_task", "list_tasks", "cancel_task", "answer_task")
)
AT = "(CASE WHEN tool_name = 'await_file' THEN arguments ->> 'path' END)"
"""Of tasks of `await_file` the file: others may have arguments that are no text to Postgres."""
OURS = {WAIT, GET, LIST, CANCEL, ANSWER}


class Program:
    """A program that only ever makes plain calls, on one wire."""

    def __init__(self, hub: RunningHub, token: str, wire: str, stack: ExitStack, caps: dict[str, Any]) -> None:
        self.wire = wire
        self.caps = caps
        self._stack = stack
        self._modern: Client | None = None
        if wire == "2026-07-28":
            self._modern = stack.enter_context(Client(hub.base, token))
        else:
            self._session = stack.enter_context(SessionClient(hub.base, token, version=wire, caps=caps))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a call, read to its end."""
        if self._modern is not None:
            found = self._modern.tool(tool, arguments, caps=self.caps).result
            assert found.pop("resultType") == "complete"
            found.pop("_meta", None)
            return found
        return self._session.tool(tool, arguments).result

    @contextlib.contextmanager
    def calling(self, tool: str, **arguments: Any) -> Iterator[None]:
        """The call is under way in the block; leaving it closes the connection."""
        params = {"name": tool, "arguments": arguments}
        with ExitStack() as stack:
            if self._modern is not None:
                stack.enter_context(self._modern.stream("tools/call", params, caps=self.caps))
            else:
                stack.enter_context(self._session.open("tools/call", params))
            yield

    def tools(self) -> dict[str, dict[str, Any]]:
        listed = (
            self._session.call("tools/list")
            if self._modern is None
            else self._modern.call("tools/list", caps=self.caps)
        )
        return {tool["name"]: tool for tool in listed.result["tools"]}


Start = Callable[..., Program]


@pytest.fixture(scope="module")
def approver(hub: RunningHub) -> Iterator[Person]:
    """Signed in once, since that takes longer than a decision."""
    with Person(hub, "approver") as person:
        yield person


@pytest.fixture(params=WIRES)
def start(hub: RunningHub, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Programs of a client of their own, whose patience is a second."""
    client = f"plain-{secrets.token_hex(4)}"
    token = hub.token(client)
    with ExitStack() as stack:

        def one(caps: dict[str, Any] | None = None, patience_ms: int | None = 1_000, **settings: Any) -> Program:
            hub.sql("UPDATE auth_context SET patience_ms = %s WHERE name = %s", [patience_ms, client])
            for name, value in settings.items():
                hub.sql(f"UPDATE auth_context SET {name} = %s WHERE name = %s", [value, client])
            return Program(hub, token, request.param, stack, caps or {})

        yield one


def events(hub: RunningHub, task_id: str) -> list[str]:
    found = hub.sql(
        "SELECT e.action FROM event e JOIN task t ON t.id = e.task_id WHERE t.public_id = %s ORDER BY e.id", [task_id]
    )
    return [action for (action,) in found]


def tasks_at(hub: RunningHub, path: Path) -> list[tuple[str, str, int]]:
    """Of the calls about this file: id, state and how often it ran."""
    return hub.sql(
        "SELECT t.public_id, t.state, t.lease_epoch FROM task t WHERE " + AT + " = %s ORDER BY t.id",
        [str(path)],
    )


def state_at(hub: RunningHub, path: Path) -> str:
    found = tasks_at(hub, path)
    return found[-1][1] if found else ""


def has_left(hub: RunningHub, path: Path) -> bool:
    return bool(hub.sql("SELECT 1 FROM task WHERE " + AT + " = %s AND left_at IS NOT NULL", [str(path)]))


def interim_of(program: Program, result: dict[str, Any]) -> dict[str, Any]:
    """What an interim result says; both of its halves are complete."""
    assert not result.get("isError")
    (block,) = result["content"]
    if program.wire == "2025-03-26":  # which has no structured content
        return {"task_id": block["text"].split(" as task ")[1].split(".")[0], "text": block["text"]}
    about = result["structuredContent"]["taskhub"]
    for said in (about["task_id"], about["says"], about["since"], about["page"], about["next"]["call"]):
        assert said in block["text"]
    return {**about, "text": block["text"]}


# The interim result, and how to go on ---------------------------------------------------------


def test_a_call_that_takes_longer_than_the_patience_is_waited_for_by_a_tool(
    hub: RunningHub, start: Start, tmp_path: Path
) -> None:
    program, file = start(), tmp_path / "there"
    about = interim_of(program, program.call("await_file", path=str(file)))
    assert about["task_id"] in about["text"]
    assert f'call {WAIT} with {{"task_id": "{about["task_id"]}"}}' in about["text"]
    again = interim_of(program, program.call(WAIT, task_id=about["task_id"]))
    assert again["task_id"] == about["task_id"]
    file.touch()
    assert program.call(WAIT, task_id=about["task_id"]) == {
        "content": [{"type": "text", "text": "Found there"}],
        "isError": False,
    }
    assert events(hub, about["task_id"]) == ["task.created", "task.claimed", "task.finished"]
    assert [(state, runs) for _, state, runs in tasks_at(hub, file)] == [("finished", 1)]


def test_the_same_call_again_joins_the_task_it_left(hub: RunningHub, start: Start, tmp_path: Path) -> None:
    program, file = start(hub_tools=False), tmp_path / "there"
    assert not OURS & program.tools().keys()
    about = interim_of(program, program.call("await_file", path=str(file)))
    assert "call await_file again with exactly the same arguments" in about["text"]
    file.touch()
    assert program.call("await_file", path=str(file))["content"] == [{"type": "text", "text": "Found there"}]
    assert [runs for _, _, runs in tasks_at(hub, file)] == [1]
    # It has the result: the next call is another.
    assert program.call("await_file", path=str(file))["content"] == [{"type": "text", "text": "Found there"}]
    assert [runs for _, _, runs in tasks_at(hub, file)] == [1, 1]


def test_an_error_of_the_tool_comes_through_waiting_as_it_is(hub: RunningHub, start: Start, tmp_path: Path) -> None:
    program = start()
    direct = program.call("await_file", path=7)
    assert direct["isError"]
    file = tmp_path / "there"
    about = interim_of(program, program.call("await_file", path=str(file)))
    hub.sql("SELECT cancel_now(id, '{}') FROM task WHERE public_id = %s", [about["task_id"]])
    assert program.call(WAIT, task_id=about["task_id"])["isError"]


def test_who_is_waited_for_is_told_with_the_page_for_the_person(
    hub: RunningHub, start: Start, approver: Person
) -> None:
    program = start()
    with approval_wanted(hub, "signed", {}, group="ops"):
        about = interim_of(program, program.call("signed"))
        assert "Waiting for approval by ops, 0 of 1" in about["text"]
        assert "A person is waited for." in about["text"]
        page = about["text"].split("it is done at ")[1].split()[0]
        assert page == f"{hub.base}/inbox/task/{about['task_id']}/?key=approval"
        approver.decide(approver.led_to(page), "approve")
        assert wait_for(program, about["task_id"])["content"][0]["text"] == "Signed"


def test_the_tools_of_the_hub_tell_what_they_know(hub: RunningHub, start: Start, tmp_path: Path) -> None:
    program, file = start(), tmp_path / "there"
    task = interim_of(program, program.call("await_file", path=str(file)))["task_id"]
    shown = told(program.call(GET, task_id=task))
    assert (shown["task_id"], shown["state"], shown["tool"]) == (task, "working", "await_file")
    assert shown["says"] == "It is running: waiting for there."
    assert (shown["progress"], shown["total"]) == (0, 1)
    assert [one["task_id"] for one in told(program.call(LIST))["tasks"]] == [task]
    assert told(program.call(LIST, state="unread"))["tasks"] == []
    file.touch()
    wait_until(lambda: state_at(hub, file) == "finished", "the end")
    assert told(program.call(LIST))["tasks"] == []
    assert [one["says"] for one in told(program.call(LIST, state="unread"))["tasks"]] == ["It has a result."]
    assert not program.call(WAIT, task_id=task)["isError"]
    assert told(program.call(LIST, state="all"))["tasks"] == []


def test_a_task_is_cancelled_by_the_tool_and_by_nobody_else(hub: RunningHub, start: Start, tmp_path: Path) -> None:
    program = start()
    task = interim_of(program, program.call("await_file", path=str(tmp_path / "never")))["task_id"]
    with Client(hub.base, hub.tokens["agent-b"]) as stranger:
        refused = stranger.tool(CANCEL, {"task_id": task}).result
        unknown = stranger.tool(CANCEL, {"task_id": task[::-1]}).result
    assert refused["isError"]
    assert refused["content"][0]["text"].replace(task, "") == unknown["content"][0]["text"].replace(task[::-1], "")
    assert state_at(hub, tmp_path / "never") == "working"
    assert not program.call(CANCEL, task_id=task).get("isError")
    wait_until(lambda: state_at(hub, tmp_path / "never") == "cancelled", "the end")
    assert program.call(CANCEL, task_id=task)["isError"]


def test_what_a_tool_asks_the_client_is_answered_by_the_tool(hub: RunningHub, start: Start) -> None:
    program = start({"elicitation": {}})
    if program.wire in ("2026-07-28", "2025-03-26"):
        return  # there it is asked by the call itself; here it cannot be asked
    task = interim_of(program, program.call("test_input_required_result_elicitation"))["task_id"]
    wrong = program.call(ANSWER, task_id=task, key="nothing", answer={"action": "decline"})
    assert wrong["isError"]
    shown = told(program.call(GET, task_id=task))
    (asked,) = shown["waits_for"]
    assert (asked["kind"], asked["from"]) == ("elicitation", "you or a person")
    bad = program.call(ANSWER, task_id=task, key=asked["key"], answer={"action": "accept", "content": {"name": 7}})
    assert bad["isError"]
    assert "does not fit" in bad["content"][0]["text"]
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert not program.call(ANSWER, task_id=task, key=asked["key"], answer=answer).get("isError")
    assert "Ada" in json.dumps(wait_for(program, task))


def test_an_approval_is_not_the_clients_to_give(hub: RunningHub, start: Start) -> None:
    program = start()
    with approval_wanted(hub, "signed", {}, group="ops"):
        task = interim_of(program, program.call("signed"))["task_id"]
        refused = program.call(ANSWER, task_id=task, key="approval", answer={"action": "accept"})
        assert refused["isError"]
        assert "asks you nothing" in refused["content"][0]["text"]
        program.call(CANCEL, task_id=task)


@pytest.mark.parametrize("arguments", [{}, {"task_id": 7}, {"task_id": "x"}, {"task_id": "a" * 30}, {"task_id": None}])
@pytest.mark.parametrize("tool", [WAIT, GET, CANCEL])
def test_a_wrong_task_is_told_to_the_model(hub: RunningHub, tool: str, arguments: dict[str, Any]) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        result = client.tool(tool, arguments).result
    assert result["isError"]
    assert "You have no task with the id" in result["content"][0]["text"]


# What is listed -------------------------------------------------------------------------------


def test_the_tools_of_the_hub_are_listed_last_and_make_no_task(hub: RunningHub, start: Start) -> None:
    program = start()
    listed = program.tools()
    assert set(list(listed)[-5:]) == OURS
    for name in OURS:
        jsonschema.Draft202012Validator.check_schema(listed[name]["inputSchema"])
        assert len(listed[name]["description"]) > 80
    before = hub.sql("SELECT count(*) FROM task")
    program.call(LIST)
    assert hub.sql("SELECT count(*) FROM task") == before


def test_an_interim_result_fits_the_output_schema_that_is_listed(start: Start) -> None:
    listed = start().tools()
    if "outputSchema" not in listed["point"]:
        return  # 2025-03-26 has none
    schema = listed["point"]["outputSchema"]
    jsonschema.validate({"x": 1, "y": 2}, schema)
    jsonschema.validate({"taskhub": {"task_id": "x"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"x": "no number"}, schema)


@pytest.mark.parametrize("version", WIRES[:2])
def test_clients_that_declare_tasks_see_and_reach_none_of_it(hub: RunningHub, version: str) -> None:
    token = hub.tokens["agent-a"]
    if version == "2026-07-28":
        with Client(hub.base, token) as client:
            listed = client.call("tools/list", caps=TASKS).result["tools"]
            refused = client.tool(LIST, caps=TASKS).error
    else:
        with SessionClient(hub.base, token, caps={"tasks": {}}) as session:
            listed = session.call("tools/list").result["tools"]
            refused = session.tool(LIST).error
    assert not OURS & {tool["name"] for tool in listed}
    assert next(tool for tool in listed if tool["name"] == "point")["outputSchema"]["required"] == ["x", "y"]
    assert refused == {"code": -32602, "message": f"Unknown tool: {LIST}"}


# Leaving and joining --------------------------------------------------------------------------


def before_a_worker_has_it(hub: RunningHub, program: Program, file: Path) -> None:
    worker = hub.part("worker")
    worker.send_signal(signal.SIGSTOP)
    try:
        with program.calling("await_file", path=str(file)):
            wait_until(lambda: state_at(hub, file) == "queued", "the task")
        wait_until(lambda: has_left(hub, file), "its caller to be gone")
    finally:
        worker.send_signal(signal.SIGCONT)


def while_it_runs(hub: RunningHub, program: Program, file: Path) -> None:
    with program.calling("await_file", path=str(file)):
        wait_until(lambda: state_at(hub, file) == "working", "a worker")
    wait_until(lambda: has_left(hub, file), "its caller to be gone")


def after_the_patience(hub: RunningHub, program: Program, file: Path) -> None:
    interim_of(program, program.call("await_file", path=str(file)))


LEAVING = [before_a_worker_has_it, while_it_runs, after_the_patience]


@pytest.mark.parametrize("leaves", LEAVING)
def test_a_caller_that_leaves_and_calls_again_has_one_task_one_run_one_result(
    hub: RunningHub, start: Start, tmp_path: Path, leaves: Callable[[RunningHub, Program, Path], None]
) -> None:
    program, file = start(), tmp_path / "there"
    leaves(hub, program, file)
    interim_of(program, program.call("await_file", path=str(file)))
    file.touch()
    assert program.call("await_file", path=str(file))["content"] == [{"type": "text", "text": "Found there"}]
    ((task, state, runs),) = tasks_at(hub, file)
    assert (state, runs) == ("finished", 1)
    assert events(hub, task).count("task.joined") == 2


def test_a_caller_that_leaves_while_a_person_is_asked_finds_the_approved_call(
    hub: RunningHub, start: Start, approver: Person
) -> None:
    program = start(patience_ms=60_000)
    with approval_wanted(hub, "signed", {}, group="ops"):
        last = hub.sql("SELECT coalesce(max(id), 0) FROM task")[0][0]

        def mine(what: str) -> Any:
            found = hub.sql(f"SELECT {what} FROM task WHERE id > %s AND tool_name = 'signed'", [last])
            return found[0][0] if found else None

        with program.calling("signed"):
            wait_until(lambda: mine("state") == "input_required", "the approval to be asked for")
        wait_until(lambda: mine("left_at IS NOT NULL"), "its caller to be gone")
        question = hub.sql("SELECT id FROM question WHERE task_id = %s", [mine("id")])[0][0]
        approver.decide(question, "approve")
        wait_until(lambda: mine("state") == "finished", "the end")
        assert program.call("signed")["content"][0]["text"] == "Signed"
        assert hub.sql("SELECT count(*) FROM task WHERE id > %s AND tool_name = 'signed'", [last]) == [(1,)]


@pytest.mark.parametrize("leaves", [while_it_runs, after_the_patience])
def test_with_the_switch_off_there_are_two(
    hub: RunningHub, start: Start, tmp_path: Path, leaves: Callable[[RunningHub, Program, Path], None]
) -> None:
    program, file = start(), tmp_path / "there"
    known = tmp_path / "known"
    known.touch()
    with never_joined(hub, "await_file", {"path": str(known)}):
        leaves(hub, program, file)
        file.touch()
        assert program.call("await_file", path=str(file))["content"] == [{"type": "text", "text": "Found there"}]
        assert len(tasks_at(hub, file)) == 2


# --- what these tests share


def told(result: dict[str, Any]) -> dict[str, Any]:
    """What one of the hub's tools says; both of its halves say the same."""
    assert not result.get("isError"), result
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    assert result.get("structuredContent", found) == found
    return found


def wait_for(program: Program, task: str) -> dict[str, Any]:
    """The final result, by as many waits as it takes."""
    found: dict[str, Any] = {}

    def ended() -> bool:
        nonlocal found
        found = program.call(WAIT, task_id=task)
        return "has not ended yet" not in json.dumps(found)

    wait_until(ended, "the final result")
    return found
