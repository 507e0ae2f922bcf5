"""Tasks of 2025-11-25: the life of one as its client sees it (T25-*)."""

from __future__ import annotations

import concurrent.futures
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.support.client import EXTENSION, TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.policies import approval_wanted
from tests.support.session import EVERYTHING, SessionClient
from tests.support.web import Web

pytestmark = pytest.mark.processes

T = TypeVar("T")
RELATED = "io.modelcontextprotocol/related-task"
YES = {"action": "accept", "content": {"confirm": True}}
UNKNOWN = "A" * 32
METHODS = ("tasks/get", "tasks/result", "tasks/cancel")


def _result(session: SessionClient, task_id: str) -> dict[str, Any]:
    return session.call("tasks/result", {"taskId": task_id}).messages[-1]


@pytest.mark.req("T25-08", "T25-09", "T25-10", "T25-11", "T25-12", "T25-13", "T25-15", "T25-16", "T25-18")
def test_a_handle_is_nested_and_carries_no_result(session: SessionClient) -> None:
    for task in ({}, {"ttl": 60_000}, {"ttl": 1.5}, {"ttl": 10**15, "other": 1}):
        result = session.tool("slow_compute", {"seconds": 0.2}, task=task).result
        found = result["task"]
        assert found["status"] == "working"
        assert re.fullmatch(r"[A-Za-z0-9_-]{32}", found["taskId"])
        assert found["pollInterval"] > 0
        assert isinstance(result["_meta"]["io.modelcontextprotocol/model-immediate-response"], str)
        session.until(found["taskId"], "completed")


@pytest.mark.req("T25-16")
@pytest.mark.parametrize("ttl", [1_000, 60_000, 7_200_000])
def test_the_ttl_of_the_handle_is_what_holds(hub: RunningHub, session: SessionClient, ttl: int) -> None:
    told = session.tool("slow_compute", {"seconds": 0.2}, task={"ttl": ttl}).result["task"]
    assert told["ttl"] >= ttl
    assert session.until(told["taskId"], "completed")["ttl"] == told["ttl"]
    (kept,) = hub.sql(
        "SELECT extract(epoch FROM expires_at - created_at)::float FROM task WHERE public_id = %s", [told["taskId"]]
    )[0]
    assert kept * 1_000 == pytest.approx(told["ttl"], abs=1_000)


@pytest.mark.parametrize(
    "task", [None, True, [], "x", {"ttl": -1}, {"ttl": 0}, {"ttl": "1"}, {"ttl": None}, {"ttl": True}]
)
@pytest.mark.req("T25-08")
def test_a_malformed_augmentation_is_refused_and_nothing_runs(
    hub: RunningHub, session: SessionClient, task: Any
) -> None:
    before = hub.sql("SELECT count(*) FROM task")
    assert session.tool("slow_compute", {"seconds": 0}, task=task).refusal == (200, -32602)
    assert hub.sql("SELECT count(*) FROM task") == before


@pytest.mark.req("T25-05", "T25-06")
def test_a_tools_support_is_kept_to(session: SessionClient) -> None:
    assert session.tool("greet", {"name": "x"}, task={}).refusal == (200, -32601)
    assert session.tool("failing_job").refusal == (200, -32601)
    assert session.tool("slow_compute", {"seconds": 0}).text.startswith("Computed")


@pytest.mark.req("T25-07")
def test_other_requests_ignore_the_augmentation(session: SessionClient) -> None:
    assert session.call("ping", {"task": {"ttl": 1}}).result == {}
    assert session.call("tools/list", {"task": {}}).result["tools"]


@pytest.mark.req("T25-14", "T25-19", "T25-20", "T25-22", "T25-23", "T25-24")
def test_a_task_works_and_completes_with_the_result_of_the_plain_call(session: SessionClient) -> None:
    plain = session.tool("slow_compute", {"seconds": 0.3, "label": "it"}).result
    task_id = session.create("slow_compute", {"seconds": 0.3, "label": "it"})
    answer = session.get(task_id)
    assert answer.headers["content-type"] == "application/json"
    done = session.until(task_id, "completed")
    assert done["createdAt"] == answer.result["createdAt"]
    assert done["lastUpdatedAt"] >= answer.result["lastUpdatedAt"]
    first, second = _result(session, task_id)["result"], _result(session, task_id)["result"]
    assert first == second == {**plain, "_meta": {RELATED: {"taskId": task_id}}}


@pytest.mark.req("T25-21", "T25-24")
def test_asking_for_the_result_waits_for_it(session: SessionClient) -> None:
    task_id = session.create("slow_compute", {"seconds": 1})
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(_result(session, task_id)["result"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.get(task_id).result["status"] == "completed"
    assert [result["content"][0]["text"] for result in found] == ["Computed something in 1 s"] * 3


@pytest.mark.req("T25-21", "T25-32")
def test_a_dropped_or_cancelled_wait_leaves_the_task_alone(session: SessionClient) -> None:
    task_id = session.create("slow_compute", {"seconds": 1.5})
    with session.open("tasks/result", {"taskId": task_id}) as events:
        assert events.event() is not None
    with session.open("tasks/result", {"taskId": task_id}, id="wait") as events:
        assert events.event() is not None
        session.notify("notifications/cancelled", {"requestId": "wait"})
        assert events.rest() == []
    assert session.until(task_id, "completed", "cancelled")["status"] == "completed"


@pytest.mark.req("T25-32")
def test_a_cancelled_notification_does_not_cancel_a_task(session: SessionClient) -> None:
    created = session.call("tools/call", {"name": "slow_compute", "arguments": {"seconds": 0.8}, "task": {}}, id="c")
    session.notify("notifications/cancelled", {"requestId": "c"})
    task_id = created.result["task"]["taskId"]
    assert session.until(task_id, "completed", "cancelled")["status"] == "completed"


@pytest.mark.req("T25-42", "T25-22")
def test_a_tool_error_fails_the_task_and_stays_a_result(session: SessionClient) -> None:
    task_id = session.create("failing_job")
    assert session.until(task_id, "completed", "failed") == {
        **session.get(task_id).result,
        "status": "failed",
        "statusMessage": "This job failed on purpose",
    }
    assert _result(session, task_id)["result"]["isError"] is True


@pytest.mark.req("T25-42")
def test_the_whole_text_of_an_error_is_in_the_status_message(session: SessionClient) -> None:
    task_id = session.create("slow_compute", {"seconds": "s" * 5_000, "label": {"no": "text" * 2_000}})
    found = session.until(task_id, "failed")
    text = _result(session, task_id)["result"]["content"][0]["text"]
    assert len(text) > 200
    assert found["statusMessage"] == text
    listed = session.call("tasks/list").result["tasks"]
    assert next(task for task in listed if task["taskId"] == task_id)["statusMessage"] == text


@pytest.mark.req("T25-16")
def test_the_first_ttl_is_long_where_a_person_may_be_asked(hub: RunningHub, session: SessionClient) -> None:
    def told(augmentation: dict[str, int]) -> int:
        found = session.tool("confirm_delete", {"filename": "x"}, task=augmentation).result["task"]
        session.call("tasks/cancel", {"taskId": found["taskId"]})
        ttl: int = found["ttl"]
        return ttl

    week, least = 7 * 86_400_000, (900 + 3_600) * 1_000
    for value, known in (("'either'", week), ("NULL", least)):
        hub.sql(f"UPDATE tool SET question_audience = {value} WHERE name = 'confirm_delete'")
        hub.sql("SELECT pg_notify('taskhub', 'c')")
        wait_until(lambda known=known: told({"ttl": 60_000}) == known, f"{value} to count")
        if known == week:
            assert told({}) == week
            assert told({"ttl": 2 * week}) == 2 * week, "a longer one is kept"


@pytest.fixture
def asked_about(hub: RunningHub) -> Iterator[str]:
    """A tool whose calls wait for an approval."""
    with approval_wanted(hub, "slow_compute", {"seconds": 0}):
        yield "slow_compute"


@pytest.mark.req("T25-16")
def test_the_first_ttl_is_long_where_people_are_asked_first(session: SessionClient, asked_about: str) -> None:
    found = session.tool(asked_about, {"seconds": 0}, task={"ttl": 60_000}).result["task"]
    session.call("tasks/cancel", {"taskId": found["taskId"]})
    assert found["ttl"] == 7 * 86_400_000


@pytest.mark.req("B26-49")
@pytest.mark.parametrize("arguments", [{"seconds": "long"}, {"seconds": 1, "label": {"no": "text"}}])
def test_nobody_is_asked_about_arguments_that_do_not_fit(
    hub: RunningHub, start: Start, session: SessionClient, alice: Client, asked_about: str, arguments: dict[str, Any]
) -> None:
    before = hub.sql("SELECT count(*) FROM task")
    for result in (
        session.tool(asked_about, arguments).result,
        alice.tool(asked_about, arguments).result,
        alice.tool(asked_about, arguments, caps=TASKS).result,
    ):
        assert result["isError"] is True
        assert "inputSchema of slow_compute" in result["content"][0]["text"]
    refused = session.tool(asked_about, arguments, task={})  # a handle or an error: a result would be taken for neither
    assert refused.refusal == (200, -32602)
    assert "inputSchema of slow_compute" in refused.error["message"]
    older = start(version="2025-06-18")
    assert older.tool(asked_about, arguments).refusal == (200, -32602)
    assert hub.sql("SELECT count(*) FROM task") == before


@pytest.mark.req("T25-22", "T25-23", "T25-34")
def test_a_protocol_error_is_the_answer_of_the_result(session: SessionClient) -> None:
    task_id = session.create("protocol_error_job")
    found = session.until(task_id, "failed")
    assert found["statusMessage"] == "This job met a protocol error on purpose"
    answer = session.call("tasks/result", {"taskId": task_id})
    assert (answer.status, answer.error) == (200, {"code": -32603, "message": found["statusMessage"]})


@pytest.mark.req("T25-28", "T25-29", "T25-30", "T25-31", "T25-25")
def test_a_cancelled_task_is_so_at_once_and_stays_so(hub: RunningHub, session: SessionClient) -> None:
    task_id = session.create("slow_compute", {"seconds": 1, "label": "to cancel"})
    session.until(task_id, "working")
    wait_until(
        lambda: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND state = 'working'", [task_id]),
        "a worker to run it",
    )
    with session.open("tasks/result", {"taskId": task_id}) as events:
        assert events.event() is not None
        found = session.call("tasks/cancel", {"taskId": task_id}).result
        assert found["status"] == "cancelled"
        error = events.until("response")["error"]
    assert error == {"code": -32602, "message": "Task was cancelled"}
    assert session.call("tasks/result", {"taskId": task_id}).error == error
    hold = session.create("slow_compute", {"seconds": 1.5})  # outlives the cancelled tool
    session.until(hold, "completed")
    assert session.get(task_id).result == found


@pytest.mark.req("T25-28")
def test_a_cancelled_tool_is_stopped(hub: RunningHub, session: SessionClient) -> None:
    task_id = session.create("hold", {"seconds": 600})
    wait_until(
        lambda: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND progress IS NOT NULL", [task_id]), "it to hold"
    )
    assert session.call("tasks/cancel", {"taskId": task_id}).result["status"] == "cancelled"
    wait_until(
        lambda: hub.sql(
            "SELECT 1 FROM attempt a JOIN task t ON t.id = a.task_id"
            " WHERE t.public_id = %s AND a.outcome = 'cancelled' AND a.ended_at IS NOT NULL",
            [task_id],
        ),
        "the attempt to end",
    )


def _deleted_meanwhile(hub: RunningHub, task_id: str, cancel: Callable[[], T]) -> T:
    """What `cancel` answers for a task that is there when it is looked for, and purged when it is to be cancelled."""
    waiting = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND query LIKE '%%cancel_now%%'"
    )
    with psycopg.connect(hub.url_of(hub.database)) as purge, concurrent.futures.ThreadPoolExecutor(1) as aside:
        purge.execute("DELETE FROM task WHERE public_id = %s", [task_id])
        answer = aside.submit(cancel)
        wait_until(lambda: hub.sql(waiting), "the cancellation to wait for the purge")
        purge.commit()
        return answer.result()


@pytest.mark.req("T25-34")
def test_a_task_that_is_purged_while_it_is_cancelled_is_unknown(
    hub: RunningHub, session: SessionClient, alice: Client
) -> None:
    ended = [session.create("failing_job") for _ in range(2)]
    for task_id in ended:
        session.until(task_id, "failed")
    unknown = session.call("tasks/cancel", {"taskId": UNKNOWN})
    answer = _deleted_meanwhile(hub, ended[0], lambda: session.call("tasks/cancel", {"taskId": ended[0]}))
    assert (answer.refusal, answer.error) == (unknown.refusal, unknown.error)
    capabilities = {"tasks": {"cancel": {}}}
    unknown_there = alice.cancel(UNKNOWN, caps=TASKS)
    answer_there = _deleted_meanwhile(hub, ended[1], lambda: alice.cancel(ended[1], caps=capabilities))
    assert (answer_there.refusal, answer_there.error) == (unknown_there.refusal, unknown_there.error)


@pytest.mark.req("T25-33")
def test_an_ended_task_is_not_cancelled(session: SessionClient) -> None:
    for tool, status in (("failing_job", "failed"), ("protocol_error_job", "failed")):
        task_id = session.create(tool)
        session.until(task_id, status)
        answer = session.call("tasks/cancel", {"taskId": task_id})
        assert answer.refusal == (200, -32602)
        assert status in answer.error["message"]
        assert session.get(task_id).result["status"] == status
    task_id = session.create("confirm_delete", {"filename": "x"})
    assert session.call("tasks/cancel", {"taskId": task_id}).result["status"] == "cancelled"
    assert "cancelled" in session.call("tasks/cancel", {"taskId": task_id}).error["message"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.req("T25-34", "T25-35", "T25-45", "T25-17")
def test_a_foreign_task_is_as_unknown_as_one_that_never_was(
    hub: RunningHub, session: SessionClient, stranger: SessionClient, method: str
) -> None:
    foreign = stranger.create("confirm_delete", {"filename": "theirs"})
    expired = session.create("failing_job")
    session.until(expired, "failed")
    hub.sql("UPDATE task SET expires_at = clock_timestamp() - interval '1 second' WHERE public_id = %s", [expired])
    answers = [session.call(method, {"taskId": found}) for found in (foreign, UNKNOWN, "x", "", "ü", expired)]
    assert {answer.refusal for answer in answers} == {(200, -32602)}
    assert {answer.error["message"] for answer in answers} == {"Failed to retrieve task: Task not found"}
    for params in ({}, {"taskId": 7}, {"taskId": None}):
        assert session.call(method, params).refusal == (200, -32602)
    assert stranger.call("tasks/cancel", {"taskId": foreign}).result["status"] == "cancelled"


@pytest.mark.req("T25-35", "T25-34")
def test_tasks_of_another_revision_are_unknown_here_and_there(alice: Client, session: SessionClient) -> None:
    later = alice.create("confirm_delete", {"filename": "later"})
    earlier = session.create("confirm_delete", {"filename": "earlier"})
    plain = alice.get(earlier, caps=TASKS)
    assert plain.error["code"] == -32602
    for method in METHODS:
        assert session.call(method, {"taskId": later}).refusal == (200, -32602)
    assert later not in {task["taskId"] for task in _all(session)}
    alice.cancel(later)
    session.call("tasks/cancel", {"taskId": earlier})


def _all(session: SessionClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    while True:
        page = session.call("tasks/list", params).result
        found += page["tasks"]
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


@pytest.mark.req("T25-26", "T25-35")
def test_the_list_holds_every_task_of_the_caller_and_no_other(hub: RunningHub, start: Start) -> None:
    session = start(hub.token("lister"))
    other = start(hub.token("another"))
    others = {other.create("failing_job") for _ in range(2)}
    mine = [session.create("failing_job") for _ in range(53)]
    session.tool("slow_compute", {"seconds": 0})  # a call that was waited for is no task
    for task_id in mine:
        session.until(task_id, "failed")
    first = session.call("tasks/list").result
    assert (len(first["tasks"]), "nextCursor" in first) == (50, True)
    listed = _all(session)
    assert [task["taskId"] for task in listed] == mine[::-1]
    assert listed == [session.get(task["taskId"]).result for task in listed]
    assert {task["taskId"] for task in _all(other)} == others
    for cursor in ("", "x", 7, first["nextCursor"][:-2]):
        assert session.call("tasks/list", {"cursor": cursor}).refusal == (200, -32602)
    assert other.call("tasks/list", {"cursor": first["nextCursor"]}).refusal == (200, -32602)


@pytest.mark.req("T25-27")
def test_related_task_metadata_of_a_request_means_nothing(session: SessionClient) -> None:
    task_id = session.create("failing_job")
    session.until(task_id, "failed")
    params = {"taskId": task_id, "_meta": {RELATED: {"taskId": UNKNOWN}}}
    assert session.call("tasks/get", params).result["taskId"] == task_id
    assert session.call("tasks/get", {"taskId": UNKNOWN, "_meta": {RELATED: {"taskId": task_id}}}).refusal == (
        200,
        -32602,
    )


@pytest.mark.req("T25-36", "T25-37", "T25-14")
def test_a_question_comes_while_the_client_waits_for_the_result(session: SessionClient) -> None:
    task_id = session.create("confirm_delete", {"filename": "a.txt"})
    assert session.until(task_id, "input_required")["statusMessage"] == "Delete a.txt?"
    with session.open("tasks/result", {"taskId": task_id}) as events:
        request = events.until("elicitation/create")
        assert request["params"]["_meta"] == {RELATED: {"taskId": task_id}}
        assert session.respond(request, YES) == 202
        assert events.until("response")["result"]["content"][0]["text"] == "Deleted a.txt"
    assert session.get(task_id).result["status"] == "completed"


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.req("T25-37")
def test_a_client_may_decline(session: SessionClient, action: str) -> None:
    task_id = session.create("confirm_delete", {"filename": "b.txt"})
    with session.open("tasks/result", {"taskId": task_id}) as events:
        session.respond(events.until("elicitation/create"), {"action": action})
        assert events.until("response")["result"]["content"][0]["text"] == "Kept b.txt"


@pytest.mark.req("T25-37", "T25-36")
def test_two_questions_are_two_requests_and_both_are_needed(session: SessionClient) -> None:
    task_id = session.create("multi_input")
    with session.open("tasks/result", {"taskId": task_id}) as events:
        first, second = events.until("elicitation/create"), events.until("elicitation/create")
        assert first["id"] != second["id"]
        session.respond(second, {"action": "accept", "content": {"name": "B"}})
        assert session.get(task_id).result["status"] == "input_required"
        session.respond(first, {"action": "accept", "content": {"name": "A"}})
        assert events.until("response")["result"]["content"][0]["text"] == "First A, then B"


@pytest.mark.req("T25-38")
def test_an_unanswered_question_is_asked_again_on_the_next_wait(session: SessionClient, start: Start) -> None:
    task_id = session.create("confirm_delete", {"filename": "c.txt"})
    with session.open("tasks/result", {"taskId": task_id}) as events:
        request = events.until("elicitation/create")
    with session.open("tasks/result", {"taskId": task_id}) as again:
        assert again.until("elicitation/create") == request, "under the same id"
    later = start(caps=EVERYTHING)  # the client came back with a session of its own
    with later.open("tasks/result", {"taskId": task_id}) as last:
        found = last.until("elicitation/create")
        assert found == request
        assert session.respond(request, {"action": "decline"}) == 202, "not the one that was asked last"
        later.respond(found, YES)
        assert last.until("response")["result"]["content"][0]["text"] == "Deleted c.txt"


@pytest.mark.req("T25-39", "T25-03")
def test_a_client_that_declared_nothing_is_asked_nothing(hub: RunningHub, start: Start) -> None:
    session = start()
    task_id = session.create("confirm_delete", {"filename": "d.txt"})
    wait_until(
        lambda: hub.sql("SELECT 1 FROM task WHERE public_id = %s AND state = 'input_required'", [task_id]),
        "the question",
    )
    found = session.get(task_id).result
    assert (found["status"], found["statusMessage"]) == ("working", "Waiting for an answer by an operator")
    with session.open("tasks/result", {"taskId": task_id}) as events:
        assert events.event() is not None
        session.call("tasks/cancel", {"taskId": task_id})
        assert events.next()["error"]["code"] == -32602


@pytest.mark.req("T25-41", "B25-25")
def test_progress_of_a_task_comes_under_the_token_of_its_call(session: SessionClient) -> None:
    created = session.tool("slow_compute", {"seconds": 1.2}, task={}, _meta={"progressToken": 7})
    task_id = created.result["task"]["taskId"]
    with session.open("tasks/result", {"taskId": task_id, "_meta": {"progressToken": "fresh"}}) as events:
        messages = events.rest()
    notes = [message["params"] for message in messages if message.get("method") == "notifications/progress"]
    assert notes
    assert {json.dumps([note["progressToken"], note["_meta"]]) for note in notes} == {
        json.dumps([7, {RELATED: {"taskId": task_id}}])
    }
    assert "result" in messages[-1]
    assert all("result" in message for message in session.call("tasks/result", {"taskId": task_id}).messages)


@pytest.mark.req("T25-02", "T25-26")
def test_callers_that_cannot_be_told_apart_do_not_list(anonymous: Web) -> None:
    with SessionClient(anonymous.base, None) as session:
        assert "list" not in session.initialized["capabilities"]["tasks"]
        assert session.call("tasks/list").refusal == (200, -32601)
        task_id = session.create("failing_job")
        assert session.until(task_id, "failed")["taskId"] == task_id


@pytest.mark.req("T25-43")
def test_limits_hold_and_are_on_record(hub: RunningHub, session: SessionClient) -> None:
    task_id = session.create("failing_job", ttl=10**12)
    assert session.get(task_id).result["ttl"] <= 2_592_000_000
    session.until(task_id, "failed")
    actions = hub.sql(
        "SELECT action, door FROM event e JOIN task t ON t.id = e.task_id WHERE t.public_id = %s ORDER BY e.id",
        [task_id],
    )
    assert actions[0] == ("task.created", "client")
    assert actions[-1][0] == "task.finished"


@pytest.mark.req("T25-35", "AU-04")
def test_scopes_are_asked_for(hub: RunningHub, start: Start) -> None:
    caller = start(hub.token("narrow", "tasks:call"))
    task_id = caller.create("failing_job")
    for method in METHODS:
        assert caller.call(method, {"taskId": task_id}).status == 403
    assert caller.call("tasks/list").status == 403
    reader = start(hub.token("narrow", "tasks:read"))
    assert reader.tool("greet", {"name": "x"}).status == 403
    assert reader.until(task_id, "failed")["taskId"] == task_id


@pytest.mark.req("T26-54")
def test_the_extension_is_not_of_this_era(session: SessionClient) -> None:
    assert EXTENSION not in json.dumps(session.initialized)


@pytest.mark.req("T26-43", "T26-08")
def test_a_client_that_moved_on_still_reads_and_cancels_what_it_began(alice: Client, bob: Client, start: Start) -> None:
    session = start(caps=EVERYTHING)
    task_id = session.create("confirm_delete", {"filename": "x"})
    shown = session.until(task_id, "input_required")
    legacy = {"tasks": {}, "elicitation": {}}
    found = alice.get(task_id, caps=legacy).result
    assert (found.pop("resultType"), bool(found.pop("_meta"))) == ("complete", True)
    assert found == shown
    both = {**legacy, **TASKS}
    assert alice.get(task_id, caps=both).result["status"] == "input_required"
    assert bob.get(task_id, caps=both).error["code"] == -32602
    assert bob.get(task_id, caps=legacy).refusal == (400, -32021)
    assert alice.get(task_id, caps={}).refusal == (400, -32021)
    assert alice.get(task_id, caps=TASKS).error["code"] == -32602
    assert alice.update(task_id, {}, caps=legacy).refusal == (400, -32021)
    assert alice.cancel(task_id, caps=legacy).result["status"] == "cancelled"
    assert alice.cancel(task_id, caps=legacy).error["code"] == -32602
    later = alice.create("confirm_delete", {"filename": "y"})
    assert alice.get(later, caps=both).result["taskId"] == later
    assert alice.get(later, caps=legacy).refusal == (400, -32021)
    alice.cancel(later)


@pytest.mark.req("T25-41", "B25-15")
def test_progress_of_a_task_nobody_waits_for_comes_on_the_sessions_stream(session: SessionClient) -> None:
    with session.listen() as events:
        assert events.event() is not None
        created = session.tool("slow_compute", {"seconds": 1.5, "label": "far"}, task={}, _meta={"progressToken": "t"})
        task_id = created.result["task"]["taskId"]
        notes: list[dict[str, Any]] = []
        while True:
            message = events.next()
            if message["method"] == "notifications/progress":
                notes.append(message["params"])
            elif message["params"]["status"] == "completed":
                break
    steps = [note["progress"] for note in notes]
    assert steps
    assert steps == sorted(set(steps))
    assert {(note["progressToken"], note["_meta"][RELATED]["taskId"]) for note in notes} == {("t", task_id)}
