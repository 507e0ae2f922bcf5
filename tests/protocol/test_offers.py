"""Prompts, resources and completion over HTTP, from the servers behind the hub."""

from __future__ import annotations

import concurrent.futures
import json
import socket
from typing import Any

import pytest

from taskhub.protocol import errors
from tests.support.client import FORMS, NONE, PREFIX, WITHOUT_TASKS, Answer, Client, accept
from tests.support.hub import RunningHub, wait_until
from tests.support.upstream import ICON, RICH_CONTENT, RICH_SCHEMA

pytestmark = pytest.mark.processes

OURS = PREFIX + "serverInfo"
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}


def _listed(client: Client, method: str, member: str, key: str) -> dict[str, dict[str, Any]]:
    return {item[key]: item for item in client.call(method).result[member]}


def _prompt(client: Client, name: str, arguments: Any = None, caps: Any = NONE, **params: Any) -> Answer:
    if arguments is not None:
        params["arguments"] = arguments
    return client.call("prompts/get", {"name": name, **params}, caps=caps)


def _read(client: Client, uri: str, caps: Any = NONE, **params: Any) -> Answer:
    return client.call("resources/read", {"uri": uri, **params}, caps=caps)


def _said(answer: Answer) -> str:
    (message,) = answer.result["messages"]
    found: str = message["content"]["text"]
    return found


# --- lists


@pytest.mark.req("B26-44", "B26-45", "B26-46")
def test_prompts_and_resources_are_listed_as_their_server_describes_them(alice: Client) -> None:
    prompts = _listed(alice, "prompts/list", "prompts", "name")
    assert {"test_simple_prompt", "test_prompt_with_arguments", "ask_both"} <= set(prompts)
    assert prompts["ask_both"] == {
        "name": "ask_both",
        "title": "Ask both",
        "description": "A prompt that wants a form filled in and a model's help.",
        "arguments": [{"name": "about", "required": False}],
        "icons": [ICON],
    }
    resources = _listed(alice, "resources/list", "resources", "uri")
    assert {"test://static-text", "test://static-binary", "test://watched-resource"} <= set(resources)
    assert resources["extra://note"] == {
        "uri": "extra://note",
        "name": "note",
        "title": "A note",
        "description": "It changes when touched.",
        "mimeType": "text/plain",
        "icons": [ICON],
        "annotations": {"audience": ["user", "assistant"], "priority": 0.9},
        "_meta": {"example.com/shelf": {"row": 3}},
    }
    templates = _listed(alice, "resources/templates/list", "resourceTemplates", "uriTemplate")
    assert {"test://template/{id}/data", "extra://asks/{what}"} <= set(templates)


@pytest.mark.req("B26-47", "B26-49", "T26-56")
def test_everything_a_tool_says_arrives_as_it_was_said(alice: Client) -> None:
    tool = next(tool for tool in alice.call("tools/list").result["tools"] if tool["name"] == "rich")
    assert tool == {
        "name": "rich",
        "title": "Rich",
        "description": "Everything a tool can say.",
        "inputSchema": RICH_SCHEMA,
        "icons": [ICON],
        "annotations": {"title": "Rich indeed", "readOnlyHint": True, "openWorldHint": False},
        "_meta": {"taskhub/task": "never", "example.com/deep": {"a": [1, {"b": None}]}},
    }
    result = alice.tool("rich").result
    assert result["content"] == RICH_CONTENT
    assert result["structuredContent"] == {"n": 1, "deep": {"list": [1, None, "x"]}}
    assert result["_meta"]["e/x"] == 1
    assert result["_meta"][OURS]["name"] == "taskhub"


# --- reading


@pytest.mark.req("B26-40", "B26-41", "B26-44")
def test_a_resource_is_read_with_how_long_it_may_be_kept(alice: Client) -> None:
    result = _read(alice, "test://static-text").result
    assert result["contents"] == [
        {
            "uri": "test://static-text",
            "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }
    ]
    assert result["_meta"][OURS]["name"] == "taskhub"
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")


@pytest.mark.req("B26-50")
def test_a_resource_that_fits_a_template_is_read_from_its_server(alice: Client) -> None:
    (content,) = _read(alice, "test://template/123/data").result["contents"]
    assert (content["uri"], content["mimeType"]) == ("test://template/123/data", "application/json")


@pytest.mark.parametrize(
    "uri", ["test://nothing", "extra://unlisted/1", "nobody://knows", "no scheme", "", "x://" + "y" * 5_000]
)
@pytest.mark.req("B26-50")
def test_a_resource_that_nobody_has_is_named_in_the_error(alice: Client, uri: str) -> None:
    answer = _read(alice, uri)
    assert (answer.refusal, answer.error["data"]) == ((200, -32602), {"uri": uri})


@pytest.mark.parametrize("uri", [None, 7, ["x"]])
@pytest.mark.req("B26-50")
def test_a_uri_is_a_string(alice: Client, uri: Any) -> None:
    answer = alice.call("resources/read", {"uri": uri}, name="x")
    assert answer.refusal == (200, -32602)


@pytest.mark.req("B26-10", "B26-82")
def test_a_caller_that_leaves_takes_its_request_back(hub: RunningHub, alice: Client) -> None:
    running = "SELECT count(*) FROM relay WHERE params ->> 'uri' = 'extra://hold/60' AND state = 'running'"
    message = alice.message("resources/read", {"uri": "extra://hold/60"})
    with concurrent.futures.ThreadPoolExecutor(1) as pool, Client(hub.base, alice.token) as leaver:
        asking = pool.submit(leaver.send, message, leaver.headers(message))
        wait_until(lambda: hub.sql(running) == [(1,)], "the request to be made")
        with socket.create_connection(("127.0.0.1", hub.port)) as raw:
            raw.sendall(_raw(alice, message))
            wait_until(lambda: hub.sql(running) == [(2,)], "the second request to be made")
        wait_until(lambda: hub.sql(running) == [(1,)], "the second request to be taken back")
        hub.sql('UPDATE relay SET state = \'done\', outcome = \'{"kind": "missing", "uri": "x"}\'')
        assert asking.result(20).error["data"] == {"uri": "x"}


def _raw(client: Client, message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    headers = {**client.headers(message), "host": client.base.removeprefix("http://"), "content-length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return ("POST /mcp HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body


# --- prompts


@pytest.mark.req("B26-40", "B26-41")
def test_a_prompt_is_filled_in(alice: Client) -> None:
    answer = _prompt(alice, "test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    assert _said(answer) == "Prompt with arguments: arg1='a', arg2='b'"
    assert answer.result["resultType"] == "complete"
    assert "ttlMs" not in answer.result


@pytest.mark.parametrize(
    "params",
    [
        {"name": "nope"},
        {"name": "test_simple_prompt", "arguments": []},
        {"name": "test_simple_prompt", "arguments": {"a": 1}},
        {"name": "test_simple_prompt", "arguments": {"a": "\0"}},
        {"name": "test_simple_prompt", "inputResponses": []},
        {"name": "test_simple_prompt", "requestState": 7},
        {"name": "test_simple_prompt", "requestState": "made up"},
    ],
)
@pytest.mark.req("B26-64", "B26-65")
def test_a_prompt_that_is_asked_for_wrongly_is_refused(alice: Client, params: dict[str, Any]) -> None:
    assert alice.call("prompts/get", params).refusal == (200, -32602)


@pytest.mark.parametrize(
    ("code", "shown", "data"),
    [
        (-32602, -32602, {"asked": "-32602"}),
        (-32603, -32603, {"asked": "-32603"}),
        (7, 7, {"asked": "7"}),
        # Codes that would be read as the hub's own are told in the data.
        (-32002, -32603, {"code": -32002, "data": {"asked": "-32002"}}),
        (-32042, -32603, {"code": -32042, "data": {"asked": "-32042"}}),
        (-32000, -32603, {"code": -32000, "data": {"asked": "-32000"}}),
        (-32601, -32603, {"code": -32601, "data": {"asked": "-32601"}}),
        (-32050, -32603, {"code": -32050, "data": {"asked": "-32050"}}),
    ],
)
@pytest.mark.req("B26-33")
def test_a_servers_error_is_told_under_a_code_it_may_use(alice: Client, code: int, shown: int, data: Any) -> None:
    answer = _prompt(alice, "error_prompt", {"code": str(code)})
    assert (answer.status, answer.error) == (200, {"code": shown, "message": "as you wish", "data": data})


# --- completion


@pytest.mark.req("B26-51")
def test_an_argument_is_completed_by_its_server(alice: Client) -> None:
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    params = {"ref": ref, "argument": {"name": "arg1", "value": "te"}, "context": {"arguments": {"arg2": "x"}}}
    result = alice.call("completion/complete", params).result
    assert result["completion"] == {"values": ["test", "testing", "tested"], "total": 3, "hasMore": False}
    assert result["resultType"] == "complete"


@pytest.mark.req("B26-51")
def test_a_server_that_completes_nothing_suggests_nothing(alice: Client) -> None:
    for ref in ({"type": "ref/prompt", "name": "ask_both"}, {"type": "ref/resource", "uri": "extra://asks/{what}"}):
        params = {"ref": ref, "argument": {"name": "about", "value": ""}}
        assert alice.call("completion/complete", params).result["completion"] == {"values": []}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "nope://{x}"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/tool", "name": "greet"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "ask_both"}, "argument": {"name": "a"}},
        {"ref": {"type": "ref/prompt", "name": "ask_both"}, "argument": {"name": "a", "value": ""}, "context": 7},
        {
            "ref": {"type": "ref/prompt", "name": "ask_both"},
            "argument": {"name": "a", "value": ""},
            "context": {"arguments": {"x": 1}},
        },
    ],
)
@pytest.mark.req("B26-51")
def test_a_completion_that_is_asked_for_wrongly_is_refused(alice: Client, params: dict[str, Any]) -> None:
    assert alice.call("completion/complete", params).refusal == (200, -32602)


# --- rounds


def _asked(answer: Answer) -> dict[str, Any]:
    assert answer.result["resultType"] == "input_required", answer.result
    assert "ttlMs" not in answer.result
    found: dict[str, Any] = answer.result["inputRequests"]
    return found


@pytest.mark.req("B26-60", "B26-61", "B26-63", "B26-44")
def test_a_prompt_can_ask_first(alice: Client) -> None:
    asked = _prompt(alice, "ask_both", {"about": "cats"}, WITHOUT_TASKS)
    assert set(_asked(asked)) == {"name", "sample"}
    responses = {"name": accept(word="", name="Ada"), "sample": SAMPLED, "unknown": accept(x="y")}
    state = asked.result["requestState"]
    done = _prompt(alice, "ask_both", {"about": "cats"}, WITHOUT_TASKS, inputResponses=responses, requestState=state)
    assert _said(done) == "Ada asks about cats"


@pytest.mark.req("B26-60", "B26-63", "B26-64", "B26-13")
def test_a_resource_can_ask_first_and_any_connection_can_answer(hub: RunningHub, alice: Client) -> None:
    asked = _read(alice, "extra://asks/cats", FORMS)
    assert _asked(asked)["word"]["params"]["message"] == "Which word?"
    with Client(hub.base, alice.token) as other:
        done = _read(
            other,
            "extra://asks/cats",
            FORMS,
            inputResponses={"word": accept(word="yes")},
            requestState=asked.result["requestState"],
        )
    assert done.result["contents"][0]["text"] == "yes about cats"


@pytest.mark.req("B26-65")
def test_a_wrong_answer_is_asked_again(alice: Client) -> None:
    asked = _prompt(alice, "only_forms", None, FORMS)
    state = asked.result["requestState"]
    for responses in ({}, {"other": accept(word="x")}, {"first": {"action": "accept", "content": {"word": 7}}}):
        again = _prompt(alice, "only_forms", None, FORMS, inputResponses=responses, requestState=state)
        assert set(_asked(again)) == {"first"}
    done = _prompt(alice, "only_forms", None, FORMS, inputResponses={"first": accept(word="x")}, requestState=state)
    assert _said(done) == "x in round one"


@pytest.mark.req("AU-04", "B26-63")
def test_answers_need_their_scope_and_a_question(hub: RunningHub, alice: Client) -> None:
    given = {"inputResponses": {"word": accept(word="yes")}}
    with Client(hub.base, hub.token("caller", "tasks:call", "tasks:read")) as caller:
        refused = _read(caller, "extra://asks/cats", FORMS, **given)
        assert (refused.status, 'scope="tasks:answer"' in refused.headers["www-authenticate"]) == (403, True)
        asked = _read(caller, "extra://asks/cats", FORMS)
        state = {"requestState": asked.result["requestState"]}
        assert _read(caller, "extra://asks/cats", FORMS, **given, **state).status == 403
    # Nobody answers what was not asked yet, or what they said they cannot answer.
    asked = _read(alice, "extra://asks/cats", FORMS, **given)
    assert set(_asked(asked)) == {"word"}
    state = {"requestState": asked.result["requestState"]}
    assert _read(alice, "extra://asks/cats", WITHOUT_TASKS | {"elicitation": None}, **given, **state).refusal == (
        400,
        -32021,
    )


@pytest.mark.req("B26-64")
def test_a_state_belongs_to_its_caller_and_its_request(alice: Client, bob: Client) -> None:
    state = _read(alice, "extra://asks/cats", FORMS).result["requestState"]
    responses = {"word": accept(word="yes")}
    more: dict[str, Any] = {"inputResponses": responses, "requestState": state}
    for answer in (
        _read(bob, "extra://asks/cats", FORMS, **more),
        _read(alice, "extra://asks/dogs", FORMS, **more),
        _prompt(alice, "ask_both", None, FORMS, **more),
        _read(alice, "extra://asks/cats", FORMS, inputResponses=responses, requestState=state[:-2] + "AA"),
        alice.tool("ask_twice", params={"requestState": state}, caps=WITHOUT_TASKS),
    ):
        assert answer.error["code"] in (-32602, -32021)
    assert _read(alice, "extra://asks/cats", FORMS, **more).result["resultType"] == "complete"


@pytest.mark.req("B26-62", "B26-30")
def test_only_what_the_client_can_answer_is_asked(alice: Client) -> None:
    assert set(_asked(_prompt(alice, "ask_both", None, FORMS))) == {"name"}
    refused = _prompt(alice, "ask_both", None, {"roots": {}})
    assert refused.refusal == (400, -32021)
    assert refused.error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}, "sampling": {}}}
    assert _read(alice, "extra://asks/x", {"sampling": {}}).error["data"] == {
        "requiredCapabilities": {"elicitation": {"form": {}}}
    }


# --- who may


@pytest.mark.req("AU-04", "AU-15")
def test_lists_need_a_token_and_reading_the_scope_that_calls_need(hub: RunningHub, nobody: Client) -> None:
    with Client(hub.base, hub.token("reader", "tasks:read")) as reader:
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            assert reader.call(method).status == 200
            assert nobody.call(method).status == 401
        ref = {"type": "ref/prompt", "name": "ask_both"}
        for method, params in {
            "prompts/get": {"name": "test_simple_prompt"},
            "resources/read": {"uri": "test://static-text"},
            "completion/complete": {"ref": ref, "argument": {"name": "about", "value": ""}},
            "subscriptions/listen": {"notifications": {"resourceSubscriptions": ["test://watched-resource"]}},
        }.items():
            answer = reader.call(method, params)
            assert answer.status == 403
            assert 'scope="tasks:call"' in answer.headers["www-authenticate"]


@pytest.mark.req("B26-33")
def test_the_codes_a_server_may_use_are_legal_on_this_wire() -> None:
    assert all(code in errors.OUR_OWN for code in errors.PASSED_ON)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-32601, (200, -32603)),
        (-32022, (200, -32603)),
        (-32020, (200, -32603)),
        (-32700, (200, -32603)),
        (-32600, (200, -32603)),
        (-32042, (200, -32603)),
        (-32602, (200, -32602)),
        (-32021, (400, -32021)),
        (42900, (200, 42900)),
        (40900, (200, 40900)),
        (50300, (200, 50300)),
        (7, (200, 7)),
    ],
)
@pytest.mark.req("B26-33")
def test_what_a_tool_says_is_never_taken_for_what_the_hub_says(
    alice: Client, code: int, expected: tuple[int, int]
) -> None:
    refused = alice.tool("error_tool", {"code": code})
    assert refused.refusal == expected
    assert refused.error["message"] == "as you wish"
    asked = {"asked": code}
    assert refused.error["data"] == (asked if expected[1] == code else {"code": code, "data": asked})
    assert "retry-after" not in refused.headers
