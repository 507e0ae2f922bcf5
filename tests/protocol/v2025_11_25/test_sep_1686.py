"""SEP-1686 by its key in `_meta`, as a client of that time would use it (T1686-*)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.protocol.v2025_11_25.conftest import Start
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.sep_1686_client import RELATED, TASK, Historical, related
from tests.support.session import EVERYTHING, SessionClient
from tests.support.web import Web, web

pytestmark = pytest.mark.processes

YES = {"action": "accept", "content": {"confirm": True}}
OLDER = ("2025-06-18", "2025-03-26")


@pytest.fixture(scope="module")
def token(hub: RunningHub) -> str:
    """The caller of these tests; each uses ids of its own."""
    return hub.token("old client")


@pytest.fixture
def alone(hub: RunningHub, start: Start, request: pytest.FixtureRequest) -> Historical:
    """A client whose list holds nothing of other tests."""
    return Historical(start(hub.token(request.node.name[:60]), caps=EVERYTHING))


@pytest.fixture
def old(start: Start, token: str) -> Historical:
    """A client of that time."""
    return Historical(start(token, caps=EVERYTHING))


@pytest.mark.parametrize("version", ["2025-11-25", *OLDER])
@pytest.mark.req("T1686-01", "T1686-03", "T1686-08", "T1686-09", "T1686-10", "T1686-11", "T1686-13", "T1686-18")
def test_a_call_is_created_polled_and_answered_late(start: Start, token: str, version: str) -> None:
    old, name = Historical(start(token, version=version)), f"my task of {version}"
    with old.call(name, "slow_compute", {"seconds": 1}, keepAlive=60_000) as events:
        found = old.get(name)
        assert found["status"] in ("submitted", "working")
        assert (found["keepAlive"], found["pollFrequency"] > 0) == (60_000, True)
        late = events.until("response")["result"]
    assert late["content"][0]["text"] == "Computed something in 1 s"
    assert late["_meta"] == related(name)
    assert old.get(name)["status"] == "completed"
    first, second = old.result(name).result, old.result(name).result
    assert first == second == late


@pytest.mark.req("T1686-06", "T1686-07", "T1686-18")
def test_statuses_go_one_way(old: Historical) -> None:
    seen: list[str] = []

    def note(task_id: str) -> str:
        seen.append(old.get(task_id)["status"])
        return seen[-1]

    with old.call("statuses", "confirm_delete", {"filename": "a"}) as events:
        note("statuses")
        request = events.until("elicitation/create")
        assert request["params"]["_meta"] == related("statuses")
        assert note("statuses") == "input_required"
        old.session.respond(request, YES)
        wait_until(lambda: note("statuses") == "completed", "the end")
        events.until("response")
    after = seen[seen.index("input_required") :]
    assert "submitted" not in after
    assert set(seen[: seen.index("input_required")]) <= {"submitted", "working"}
    assert sorted(after, key=["input_required", "working", "completed"].index) == after


@pytest.mark.req("T1686-06")
def test_a_task_that_no_worker_took_is_submitted(old: Historical) -> None:
    # As many as one client may have running at once, and one more.
    half = 16
    with ExitStack() as stack:
        for number in range(half):
            stack.enter_context(old.call(f"filler {number}", "slow_compute", {"seconds": 30}, id=f"f{number}"))
        old.start("waiting", "slow_compute", {"seconds": 0})
        wait_until(lambda: old.get(f"filler {half - 1}")["status"] == "working", "all to run")
        assert old.get("waiting")["status"] == "submitted"
        for number in range(half):
            old.session.notify("notifications/cancelled", {"requestId": f"f{number}"})
    old.until("waiting", "completed")


@pytest.mark.parametrize(
    "augmentation",
    [
        None,
        {},
        {"taskId": 7},
        {"taskId": ""},
        {"taskId": "x" * 2_000},
        {"taskId": "a", "keepAlive": "1"},
        {"taskId": "a", "keepAlive": -1},
    ],
)
@pytest.mark.req("T1686-04", "T1686-01")
def test_a_malformed_augmentation_is_refused(old: Historical, augmentation: Any) -> None:
    answer = old.session.tool("slow_compute", {"seconds": 0}, _meta={TASK: augmentation})
    assert answer.refusal == (200, -32602)


@pytest.mark.req("T1686-02")
def test_where_there_is_no_task_the_key_means_nothing(old: Historical, alice: Client) -> None:
    meta = {TASK: {"taskId": "ignored"}}
    answer = old.session.tool("greet", {"name": "x"}, _meta=meta)
    assert (answer.text, len(answer.messages)) == ("Hello, x!", 1)
    assert "_meta" not in answer.result
    assert old.session.call("ping", {"_meta": meta}).result == {}
    assert old.session.call("tasks/get", {"taskId": "ignored"}).refusal == (200, -32602)
    later = alice.tool("slow_compute", {"seconds": 0}, meta={TASK: {"taskId": "ignored"}})
    assert later.result["resultType"] == "complete"


@pytest.mark.req("T1686-02")
def test_the_profile_can_be_switched_off(hub: RunningHub) -> None:
    with (
        web(hub, TASKHUB_REVISIONS="2025-11-25,2026-07-28") as published,
        SessionClient(published.base, hub.tokens["agent-a"]) as session,
    ):
        answer = session.tool("slow_compute", {"seconds": 0}, _meta={TASK: {"taskId": "mine"}})
        assert (answer.text, answer.notifications) == ("Computed something in 0 s", [])
        assert session.call("tasks/get", {"taskId": "mine"}).refusal == (200, -32602)
        assert session.call("tasks/delete", {"taskId": "mine"}).refusal == (200, -32601)


@pytest.mark.req("T1686-05")
def test_an_id_is_used_once_even_at_the_same_moment(hub: RunningHub, old: Historical, start: Start, token: str) -> None:
    others = [start(token) for _ in range(6)]
    barrier = threading.Barrier(len(others))
    answers: list[Any] = []

    def one(session: SessionClient) -> None:
        barrier.wait()
        meta = {TASK: {"taskId": "same"}}
        answers.append(session.tool("slow_compute", {"seconds": 0.2}, _meta=meta).messages[-1])

    threads = [threading.Thread(target=one, args=(session,)) for session in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert len(errors) == len(others) - 1
    assert {error["code"] for error in errors} == {-32602}
    assert all(error["message"].startswith("Task ID already exists") for error in errors)
    assert hub.sql("SELECT count(*) FROM task WHERE client_task_id = 'same'") == [(1,)]
    again = old.session.tool("slow_compute", {"seconds": 9}, _meta={TASK: {"taskId": "same"}})
    assert again.error["message"].startswith("Task ID already exists")


@pytest.mark.req("T1686-05", "T25-19")
def test_an_id_cannot_be_that_of_a_published_task(old: Historical) -> None:
    published = old.session.create("slow_compute", {"seconds": 0})
    answer = old.session.tool("slow_compute", {"seconds": 0}, _meta={TASK: {"taskId": published}})
    assert answer.error == {"code": -32602, "message": f"Task ID already exists: {published}"}
    assert "ttl" in old.session.get(published).result


@pytest.mark.req("T1686-04", "T1686-21", "T1686-22")
def test_two_callers_may_use_the_same_id(alone: Historical, stranger: SessionClient, hub: RunningHub) -> None:
    old = alone
    other = Historical(stranger)
    name = f"shared name {hub.sql('SELECT count(*) FROM task')[0][0]}"
    old.start(name, "failing_job")
    for method in ("tasks/get", "tasks/result", "tasks/delete"):
        assert stranger.call(method, {"taskId": name}).status == 200
        assert "error" in stranger.call(method, {"taskId": name}).messages[-1]
    other.start(name, "slow_compute", {"seconds": 5, "label": "theirs"})
    old.until(name, "completed")
    assert other.get(name)["status"] in ("submitted", "working")
    assert [task["taskId"] for task in old.list()] == [name]


@pytest.mark.req("T1686-04")
def test_callers_that_cannot_be_told_apart_are_told_apart_by_their_sessions(anonymous: Web) -> None:
    with SessionClient(anonymous.base, None) as one, SessionClient(anonymous.base, None) as two:
        mine, theirs = Historical(one), Historical(two)
        mine.start("x", "failing_job")
        assert two.call("tasks/get", {"taskId": "x"}).refusal == (200, -32602)
        theirs.start("x", "failing_job")
        assert ([task["taskId"] for task in mine.list()], len(theirs.list())) == (["x"], 1)


@pytest.mark.req("T1686-12", "T1686-20", "T1686-13")
def test_a_tool_error_completes_and_a_protocol_error_fails(old: Historical) -> None:
    old.start("tool error", "failing_job")
    old.until("tool error", "completed")
    assert old.result("tool error").result["isError"] is True
    old.start("protocol error", "protocol_error_job")
    found = old.until("protocol error", "failed")
    assert found["error"] == "This job met a protocol error on purpose"
    assert old.result("protocol error").refusal == (200, -32602)
    with old.call("protocol error, waited for", "protocol_error_job") as events:
        assert events.until("response")["error"]["code"] == -32603


@pytest.mark.req("T1686-13")
def test_the_result_is_refused_at_once_before_the_end(old: Historical) -> None:
    old.start("early", "slow_compute", {"seconds": 2})
    answer = old.result("early")
    assert answer.refusal == (200, -32602)
    assert "not completed" in answer.error["message"]
    old.until("early", "completed")


@pytest.mark.req("T1686-09")
def test_a_dropped_connection_cancels_nothing(old: Historical) -> None:
    old.start("dropped", "slow_compute", {"seconds": 0.5})
    assert old.until("dropped", "completed", "cancelled")["status"] == "completed"


@pytest.mark.req("T1686-08", "T1686-09")
def test_a_stream_that_broke_before_its_first_word_says_it_again(old: Historical) -> None:
    params = {
        "name": "slow_compute",
        "arguments": {"seconds": 1},
        "_meta": {TASK: {"taskId": "broken"}},
    }
    with old.session.open("tools/call", params, id=3) as events:
        first = events.event()
        assert first is not None
    with old.session.listen(first.id, of=("tools/call", params, 3)) as again:
        messages = again.rest()
    assert messages[0]["method"] == "notifications/tasks/created"
    assert messages[-1]["result"]["_meta"] == related("broken")


@pytest.mark.req("T1686-14", "T1686-10")
def test_the_list_pages_through_all_of_them(alone: Historical, start: Start) -> None:
    old = alone
    names = [f"listed {number}" for number in range(52)]
    for name in names:
        old.start(name, "failing_job")
    for name in names:
        old.until(name, "completed")
    listed = old.list()
    assert [task["taskId"] for task in listed] == names[::-1]
    assert [{**task, "_meta": related(task["taskId"])} for task in listed] == [old.get(name) for name in names[::-1]]
    for cursor in ("", "x", 7):
        assert old.session.call("tasks/list", {"cursor": cursor}).refusal == (200, -32602)


@pytest.mark.req("T1686-14", "T25-26")
@pytest.mark.parametrize("version", ["2025-11-25", *OLDER])
def test_all_is_listed_on_every_session(alone: Historical, start: Start, version: str) -> None:
    old, published = alone, version == "2025-11-25"
    names = [alone.session.create("slow_compute", {"seconds": 0}) for _ in range(26)]
    first = old.session.call("tasks/list").result
    for number in range(26):
        name = f"mixed {number}"
        old.start(name, "failing_job")
        old.until(name, "completed")
        names.append(name)
    names += [old.session.create("slow_compute", {"seconds": 0}) for _ in range(25)]

    def status(name: str) -> object:
        return old.session.call("tasks/get", {"taskId": name}).result["status"]

    wait_until(lambda: {status(name) for name in names} == {"completed"}, "all to end, so that what is compared stays")
    got = [name for name in reversed(names) if published or name.startswith("mixed")]
    session = start(old.session.token, version=version)
    page = session.call("tasks/list").result
    listed = page["tasks"]
    while "nextCursor" in page:
        # Of one session as good as of another.
        page = old.session.call("tasks/list", {"cursor": page["nextCursor"]}).result
        listed += page["tasks"]
    assert [task["taskId"] for task in listed] == got
    for task in listed[:: len(listed) // 4]:
        found = session.call("tasks/get", {"taskId": task["taskId"]}).result
        assert {**task, **({"_meta": found["_meta"]} if "keepAlive" in task else {})} == found
    assert [task["taskId"] for task in first["tasks"]] == names[25::-1]


@pytest.mark.req("T1686-14")
def test_a_cursor_stays_good_when_the_session_speaks_otherwise(alone: Historical) -> None:
    names = [alone.session.create("slow_compute", {"seconds": 0}) for _ in range(51)]
    page = alone.session.call("tasks/list").result
    alone.start("in between", "failing_job")
    further = alone.session.call("tasks/list", {"cursor": page["nextCursor"]}).result
    assert [task["taskId"] for task in further["tasks"]] == names[:1]


@pytest.mark.req("T1686-15")
def test_an_ended_task_can_be_deleted_and_is_unknown_then(hub: RunningHub, alone: Historical) -> None:
    old = alone
    old.start("to delete", "slow_compute", {"seconds": 1})
    delete = {"taskId": "to delete", "_meta": related("to delete")}
    assert old.session.call("tasks/delete", delete).refusal == (200, -32602)
    old.until("to delete", "completed")
    assert old.session.call("tasks/delete", delete).result == {"_meta": related("to delete")}
    for method in ("tasks/get", "tasks/result", "tasks/delete"):
        assert old.session.call(method, delete).refusal == (200, -32602)
    assert old.list() == []
    assert hub.sql("SELECT state FROM task WHERE client_task_id = 'to delete'") == [("finished",)], (
        "the console keeps it"
    )
    deleted = hub.sql(
        "SELECT count(*) FROM event e JOIN task t ON t.public_id = e.after ->> 'task'"
        " WHERE e.action = 'task.deleted' AND t.client_task_id = 'to delete'"
    )
    assert deleted == [(1,)]


@pytest.mark.req("T1686-16")
def test_a_task_is_kept_from_its_end(hub: RunningHub, old: Historical) -> None:
    old.start("kept", "slow_compute", {"seconds": 1.2}, keepAlive=1_000)
    old.until("kept", "completed")  # it ran for longer than it is kept
    (kept,) = hub.sql(
        "SELECT extract(epoch FROM expires_at - ended_at)::float FROM task WHERE client_task_id = 'kept'"
    )[0]
    assert kept == pytest.approx(1.0)
    old.start("default", "failing_job")
    assert old.get("default")["keepAlive"] == 86_400_000
    old.start("for ever", "failing_job", keepAlive=10**15)
    assert old.get("for ever")["keepAlive"] == 2_592_000_000
    wait_until(
        lambda: old.session.call("tasks/get", {"taskId": "kept"}).messages[-1].get("error", {}).get("code") == -32602,
        "it to be forgotten",
    )


@pytest.mark.req("T1686-17")
def test_all_questions_need_an_answer(old: Historical) -> None:
    with old.call("two questions", "multi_input") as events:
        first, second = events.until("elicitation/create"), events.until("elicitation/create")
        old.session.respond(first, {"action": "accept", "content": {"name": "A"}})
        assert old.get("two questions")["status"] == "input_required"
        old.session.respond(second, {"action": "accept", "content": {"name": "B"}})
        assert events.until("response")["result"]["content"][0]["text"] == "First A, then B"


@pytest.mark.req("T1686-17", "T1686-18")
def test_a_question_of_a_dropped_call_comes_on_the_sessions_stream(old: Historical) -> None:
    with old.session.listen() as events:
        assert events.event() is not None
        old.start("dropped question", "confirm_delete", {"filename": "x"})
        request = events.until("elicitation/create")
        assert request["params"]["_meta"] == related("dropped question")
        old.session.respond(request, YES)
        old.until("dropped question", "completed")


@pytest.mark.req("T1686-18")
def test_progress_carries_the_task_too(old: Historical) -> None:
    with old.call("progress", "slow_compute", {"seconds": 1}, meta={"progressToken": "p"}) as events:
        note = events.until("notifications/progress")["params"]
        assert (note["progressToken"], note["_meta"]) == ("p", related("progress"))
        events.until("response")


@pytest.mark.req("T1686-19", "T1686-07")
def test_cancelling_the_request_cancels_the_task_at_once(hub: RunningHub, old: Historical) -> None:
    with old.call("to cancel", "hold", {"seconds": 600}, id="the request") as events:
        old.until("to cancel", "working")
        assert old.session.notify("notifications/cancelled", {"requestId": "the request"}) == 202
        assert old.get("to cancel")["status"] == "cancelled"
        assert events.rest() == []
    assert old.result("to cancel").refusal == (200, -32602)
    old.start("dropped first", "confirm_delete", {"filename": "y"})
    (request_id,) = hub.sql("SELECT request_id FROM task WHERE client_task_id = 'dropped first'")[0]
    old.session.notify("notifications/cancelled", {"requestId": int(request_id)})
    assert old.get("dropped first")["status"] == "cancelled"
    old.start("ended", "failing_job")
    old.until("ended", "completed")
    (request_id,) = hub.sql("SELECT request_id FROM task WHERE client_task_id = 'ended'")[0]
    old.session.notify("notifications/cancelled", {"requestId": int(request_id)})
    assert old.get("ended")["status"] == "completed"


@pytest.mark.req("T1686-19", "T1686-18")
def test_the_published_words_do_not_reach_these_tasks(old: Historical) -> None:
    old.start("foreign words", "confirm_delete", {"filename": "z"})
    assert old.session.call("tasks/cancel", {"taskId": "foreign words"}).refusal == (200, -32602)
    published = old.session.create("confirm_delete", {"filename": "published"})
    assert "ttl" in old.session.get(published).result
    assert RELATED not in str(old.session.get(published).result)
    old.session.call("tasks/cancel", {"taskId": published})


@pytest.fixture(autouse=True)
def _nothing_runs_on(hub: RunningHub, token: str) -> Iterator[None]:
    """Long calls of a test end with it."""
    yield
    hub.sql(
        "UPDATE task SET cancel_requested_at = clock_timestamp() WHERE ended_at IS NULL AND state = 'working'"
        " AND tool_name IN ('slow_compute', 'hold') AND cancel_requested_at IS NULL AND client_task_id IS NOT NULL"
    )
