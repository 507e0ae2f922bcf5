"""From bytes to a checked request: no server, no database."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskhub.core.names import META_VERSION
from taskhub.core.records import Audience, OpenQuestion, Principal, QuestionKind, State, TaskRecord
from taskhub.domain.questions.kinds import METHODS
from taskhub.lib import jsonx
from taskhub.protocol import envelope
from taskhub.protocol.envelope import BadEnvelope, Envelope, read_envelope
from taskhub.protocol.errors import WireError, http_status
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.revisions.v2026_07_28 import VERSION, methods, tasks
from taskhub.protocol.stateless.request import (
    META_CAPABILITIES,
    META_CLIENT,
    Request,
    check_param_headers,
    decoded_header,
    param_headers,
)
from taskhub.protocol.wire.tasks import status, timestamp
from tests.protocol import schema

CALLER = Principal(
    tenant_id=1, context_id=1, name="c", issuer="i", subject="s", client_id="c", scopes=frozenset({"tasks:call"})
)
META = {META_VERSION: VERSION, META_CAPABILITIES: {}}
HEADERS = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "greet"}


async def _never() -> None:
    raise AssertionError("nobody leaves in here")


def _incoming(headers: Mapping[str, str], repeated: frozenset[str] = frozenset()) -> Incoming:
    return Incoming(body=b"", headers=headers, repeated=repeated, principal=CALLER, address="", gone=_never)


def _checked(
    headers: Mapping[str, str | None] | None = None,
    *,
    method: str = "tools/call",
    params: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    repeated: frozenset[str] = frozenset(),
) -> Request:
    sent = {key: value for key, value in {**HEADERS, **(headers or {})}.items() if value is not None}
    found = META if meta is None else meta
    body = {"name": "greet"} if params is None else params
    message = Envelope(id=1, method=method, params={**body, "_meta": found}, meta=found, has_meta=True)
    return methods.checked(message, _incoming(sent, repeated), (VERSION,))


def _refusal(**how: Any) -> tuple[int, int]:
    with pytest.raises(WireError) as caught:
        _checked(how.pop("headers", None), **how)
    return caught.value.status or http_status(caught.value.code), caught.value.code


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff\xfe{}", -32700, None),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"x"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":NaN}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":-Infinity}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":1e400}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":{"b":1,"b":2}}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"s":"\\ud800"}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"} {}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 64 + b"]" * 64 + b"}}", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"id":' + b"9" * 5_000 + b"}", -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', -32600, None),
        (b'"x"', -32600, None),
        (b"null", -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"x"}', -32600, 7),
        (b'{"id":"seven","method":"x"}', -32600, "seven"),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":""}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":{},"error":{}}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"error":1}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":[]}', -32600, 7),
        (b'{"jsonrpc":"2.0","result":{}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":[]}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"_meta":[]}}', -32602, 7),
    ],
)
@pytest.mark.req("B26-01", "B26-05", "B26-14")
def test_what_is_no_message_is_refused_with_the_id_as_far_as_it_could_be_read(
    body: bytes, code: int, id: str | int | None
) -> None:
    with pytest.raises(BadEnvelope) as caught:
        read_envelope(body)
    assert (caught.value.status or http_status(caught.value.code), caught.value.code, caught.value.id) == (
        400,
        code,
        id,
    )


@pytest.mark.parametrize("id", [0, -1, 7, 2**53 + 1, 10**40, "", "7", "ü", "x" * 1000])
@pytest.mark.req("B26-14")
def test_an_id_comes_back_as_it_came(id: str | int) -> None:
    found = read_envelope(json.dumps({"jsonrpc": "2.0", "id": id, "method": "x"}).encode())
    assert (found.id, type(found.id)) == (id, type(id))
    assert json.loads(envelope.result_message(found.id, b"{}"))["id"] == id
    assert json.loads(envelope.error_message(found.id, {"code": 1, "message": "m"}))["id"] == id


@pytest.mark.req("B26-05")
def test_an_error_to_nobody_has_no_id() -> None:
    assert json.loads(envelope.error_message(None, {"code": 1, "message": "m"})) == {
        "jsonrpc": "2.0",
        "error": {"code": 1, "message": "m"},
    }


@pytest.mark.req("B26-06")
def test_a_message_without_an_id_is_a_notification() -> None:
    assert read_envelope(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}').id is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
@pytest.mark.req("B26-05")
def test_what_is_encoded_decodes_to_the_same(value: Any) -> None:
    assert jsonx.decode(jsonx.encode(value)) == value
    assert jsonx.decode(jsonx.canonical(value)) == value


@given(st.binary(max_size=200))
@pytest.mark.req("B26-05")
def test_no_bytes_break_the_reader(body: bytes) -> None:
    with contextlib.suppress(BadEnvelope):
        read_envelope(body)


@pytest.mark.req("B26-05")
def test_nesting_is_counted_exactly() -> None:
    fits = b"[" * jsonx.MAX_DEPTH + b"]" * jsonx.MAX_DEPTH
    assert jsonx.decode(fits) is not None
    with pytest.raises(jsonx.JsonError, match="deeper"):
        jsonx.decode(b"[" + fits + b"]")
    with pytest.raises(jsonx.JsonError, match="values"):
        jsonx.decode(b"[" + b",".join([b"0"] * jsonx.MAX_NODES) + b"]")


@pytest.mark.req("B26-20", "B26-21", "B26-22")
def test_a_request_that_agrees_with_itself_passes() -> None:
    found = _checked()
    assert (found.method, found.capabilities, found.client_info) == ("tools/call", {}, {})


LADDER: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("a doubled routing header", {"repeated": frozenset({"mcp-name"})}, (400, -32020)),
    ("no metadata", {"meta": {}}, (400, -32602)),
    ("a version that is no string", {"meta": {**META, META_VERSION: 1}}, (400, -32602)),
    ("capabilities that are no object", {"meta": {**META, META_CAPABILITIES: []}}, (400, -32602)),
    ("another version in the header", {"headers": {"mcp-protocol-version": "v999.0.0"}}, (400, -32020)),
    ("no version in the header", {"headers": {"mcp-protocol-version": None}}, (400, -32020)),
    ("another method in the header", {"headers": {"mcp-method": "tools/list"}}, (400, -32020)),
    ("the method in capitals", {"headers": {"mcp-method": "TOOLS/CALL"}}, (400, -32020)),
    ("no method in the header", {"headers": {"mcp-method": None}}, (400, -32020)),
    ("another name in the header", {"headers": {"mcp-name": "Greet"}}, (400, -32020)),
    ("no name in the header", {"headers": {"mcp-name": None}}, (400, -32020)),
    ("a name that is no base64", {"headers": {"mcp-name": "=?base64?!!!?="}}, (400, -32020)),
    (
        "a version nobody has",
        {"headers": {"mcp-protocol-version": "v9"}, "meta": {**META, META_VERSION: "v9"}},
        (400, -32022),
    ),
    (
        "a method nobody has",
        {"headers": {"mcp-method": "tasks/list", "mcp-name": None}, "method": "tasks/list"},
        (404, -32601),
    ),
]


@pytest.mark.parametrize(("fault", "answer"), [rung[1:] for rung in LADDER], ids=[rung[0] for rung in LADDER])
@pytest.mark.req("B26-20", "B26-21", "B26-22", "B26-23", "B26-27", "B26-29", "B26-31", "T26-53")
def test_each_rung_refuses_alone(fault: dict[str, Any], answer: tuple[int, int]) -> None:
    assert _refusal(**fault) == answer


@pytest.mark.req("B26-32", "T26-41")
def test_the_first_failed_rung_answers() -> None:
    everything: dict[str, Any] = {
        "repeated": frozenset({"mcp-method"}),
        "meta": {META_VERSION: "v9", META_CAPABILITIES: None},
        "headers": {"mcp-protocol-version": "v8", "mcp-method": "x", "mcp-name": None},
        "method": "tasks/result",
    }
    seen = [_refusal(**everything)]
    everything["repeated"] = frozenset({"mcp-param-x", "accept"})
    seen.append(_refusal(**everything))
    everything["meta"] = {**everything["meta"], META_CAPABILITIES: {}}
    seen.append(_refusal(**everything))
    everything["headers"]["mcp-protocol-version"] = "v9"
    seen.append(_refusal(**everything))
    everything["headers"]["mcp-method"] = "tasks/result"
    seen.append(_refusal(**everything))
    everything["headers"]["mcp-protocol-version"] = VERSION
    everything["meta"][META_VERSION] = VERSION
    seen.append(_refusal(**everything))
    assert [code for _, code in seen] == [-32020, -32602, -32020, -32020, -32022, -32601]


@pytest.mark.req("B26-28")
def test_who_the_client_is_may_stay_unsaid() -> None:
    assert _checked(meta={**META, "x/unknown": [1]}).client_info == {}
    assert _checked(meta={**META, META_CLIENT: "no object"}).client_info == {}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("plain", "plain"),
        ("", ""),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64??=", ""),
        ("=?base64?=", "=?base64?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?w7w=?=", "ü"),
    ],
)
@pytest.mark.req("B26-24")
def test_a_header_is_literal_unless_it_wears_the_whole_sentinel(sent: str, read: str) -> None:
    assert decoded_header(sent) == read


@pytest.mark.parametrize("inside", ["SGVsbG8", "SGVs!!!bG8=", "SGVs bG8=", "_-8=", "/w==", "SGVsbG8=="])
@pytest.mark.req("B26-24")
def test_a_sentinel_around_what_is_no_base64_of_utf8_is_refused(inside: str) -> None:
    with pytest.raises(WireError) as caught:
        decoded_header(f"=?base64?{inside}?=")
    assert (caught.value.status or http_status(caught.value.code), caught.value.code) == (400, -32020)


@given(st.text())
@pytest.mark.req("B26-24")
def test_any_text_survives_the_sentinel(text: str) -> None:
    assert decoded_header(f"=?base64?{base64.b64encode(text.encode()).decode()}?=") == text


SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "COUNT"},
        "sure": {"type": "boolean", "x-mcp-header": "sure"},
        "deep": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Deep-Id"}}},
        "plain": {"type": "string", "default": {"x-mcp-header": "data"}},
    },
}


@pytest.mark.req("B26-25")
def test_annotations_count_where_only_properties_lead_to_them() -> None:
    assert param_headers(SCHEMA) == (
        ("mcp-param-region", ("region",)),
        ("mcp-param-count", ("count",)),
        ("mcp-param-sure", ("sure",)),
        ("mcp-param-deep-id", ("deep", "id")),
    )
    assert param_headers(None) == param_headers(True) == param_headers({"properties": []}) == ()


def _agree(
    arguments: dict[str, Any], headers: Mapping[str, str] | None = None, repeated: frozenset[str] = frozenset()
) -> bool:
    try:
        check_param_headers(param_headers(SCHEMA), arguments, _incoming(headers or {}, repeated))
    except WireError as error:
        if (http_status(error.code), error.code) != (400, -32020):
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": None}, {}),
        ({"plain": "x"}, {"mcp-param-plain": "y", "mcp-param-unknown": "z"}),
        ({"region": "eu"}, {"mcp-param-region": "eu"}),
        ({"region": "ü"}, {"mcp-param-region": "=?base64?w7w=?="}),
        ({"region": ""}, {"mcp-param-region": ""}),
        ({"count": 42}, {"mcp-param-count": "42"}),
        ({"count": 42}, {"mcp-param-count": "42.0"}),
        ({"count": 42.0}, {"mcp-param-count": "42"}),
        ({"count": -1}, {"mcp-param-count": "-1"}),
        ({"count": 2**70}, {"mcp-param-count": str(2**70)}),
        ({"count": 10**400}, {"mcp-param-count": str(10**400)}),
        ({"sure": True}, {"mcp-param-sure": "true"}),
        ({"sure": False}, {"mcp-param-sure": "false"}),
        ({"deep": {"id": "x"}}, {"mcp-param-deep-id": "x"}),
        ({"deep": "no object"}, {}),
    ],
)
@pytest.mark.req("B26-26")
def test_a_mirrored_argument_that_agrees_passes(arguments: dict[str, Any], headers: dict[str, str]) -> None:
    assert _agree(arguments, headers)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"mcp-param-region": "EU"}),
        ({"region": "eu"}, {"mcp-param-region": "=?base64?!?="}),
        ({"region": ["eu"]}, {"mcp-param-region": "eu"}),
        ({"count": 42}, {"mcp-param-count": "43"}),
        ({"count": 42}, {"mcp-param-count": ""}),
        ({"count": 42}, {"mcp-param-count": "4_2"}),
        ({"count": 42}, {"mcp-param-count": "٤٢"}),
        ({"count": 0}, {"mcp-param-count": "nan"}),
        ({"count": 10**400}, {"mcp-param-count": "inf"}),
        ({"count": 10**400}, {"mcp-param-count": "1e999999999"}),
        ({"count": 2**53 + 1}, {"mcp-param-count": str(2**53)}),
        ({"count": 1}, {"mcp-param-count": "true"}),
        ({"sure": True}, {"mcp-param-sure": "True"}),
        ({"sure": True}, {"mcp-param-sure": "1"}),
        ({"deep": {"id": "x"}}, {}),
    ],
)
@pytest.mark.req("B26-26")
def test_a_mirrored_argument_that_is_missing_or_differs_is_refused(
    arguments: dict[str, Any], headers: dict[str, str]
) -> None:
    assert not _agree(arguments, headers)


@pytest.mark.req("B26-23", "B26-26")
def test_a_mirrored_header_that_comes_twice_is_refused() -> None:
    assert not _agree({"region": "eu"}, {"mcp-param-region": "eu"}, frozenset({"mcp-param-region"}))


def _task(state: State, *questions: OpenQuestion, message: str = "") -> TaskRecord:
    at = datetime(2026, 8, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    return TaskRecord(
        id=1,
        public_id="A" * 32,
        revision=VERSION,
        state=state,
        message=message,
        progress=None,
        total=None,
        created_at=at,
        updated_at=at,
        ended_at=at if state in (State.FINISHED, State.FAULTED, State.CANCELLED) else None,
        ttl_ms=60_000,
        poll_interval_ms=1_000,
        result_json='{"content":[]}' if state is State.FINISHED else None,
        error_json='{"code":-32603,"message":"lost"}' if state is State.FAULTED else None,
        is_error=False,
        cancel_requested_at=None,
        version=1,
        tool_name="t",
        questions=questions,
    )


def _question(kind: QuestionKind, audience: Audience, key: str = "q") -> OpenQuestion:
    params: dict[str, Any] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    if kind is QuestionKind.SAMPLING:
        params = {"messages": [], "maxTokens": 1}
    return OpenQuestion(key, kind, {} if kind is QuestionKind.ROOTS else params, audience, "", 1, 0)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("audience", [None, *Audience])
@pytest.mark.parametrize("kind", list(QuestionKind))
@pytest.mark.req("T26-21", "T26-22", "T26-23", "T26-24", "T26-25", "T26-27", "T26-28")
def test_every_state_has_a_shape_on_the_wire(state: State, audience: Audience | None, kind: QuestionKind) -> None:
    asked = (_question(kind, audience),) if audience and state is State.INPUT_REQUIRED else ()
    task = _task(state, *asked)
    found = tasks.wire_view(task)
    schema.check_result("tasks/get", found)
    schema.check_result("tools/call", {"resultType": "task", **tasks.task_fields(task)})
    for_client = audience in (Audience.CLIENT, Audience.EITHER) and kind in METHODS
    expected = {
        State.QUEUED: "working",
        State.WORKING: "working",
        State.INPUT_REQUIRED: "input_required" if for_client else "working",
        State.FINISHED: "completed",
        State.FAULTED: "failed",
        State.CANCELLED: "cancelled",
    }
    assert found["status"] == status(task) == expected[state]


@pytest.mark.req("T26-24", "T26-31")
def test_only_the_questions_of_the_client_are_shown_and_all_of_them() -> None:
    asked = [
        _question(QuestionKind.ELICITATION, Audience.EITHER, "a"),
        _question(QuestionKind.ELICITATION, Audience.OPERATOR, "b"),
        _question(QuestionKind.SAMPLING, Audience.CLIENT, "c"),
        _question(QuestionKind.APPROVAL, Audience.OPERATOR, "approval"),
    ]
    assert list(tasks.wire_view(_task(State.INPUT_REQUIRED, *asked))["inputRequests"]) == ["a", "c"]


@pytest.mark.req("T26-17")
def test_times_are_iso_8601_in_utc() -> None:
    fields = tasks.task_fields(_task(State.WORKING, message="Half way"))
    assert fields["createdAt"] == fields["lastUpdatedAt"] == "2026-08-01T10:00:00.123Z"
    assert fields["statusMessage"] == "Half way"
    assert timestamp(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000Z"


@pytest.mark.req("T26-15")
def test_a_task_without_a_limit_says_null() -> None:
    task = _task(State.WORKING)
    assert {**tasks.task_fields(task), "ttlMs": None} == tasks.task_fields(
        TaskRecord(**{**{name: getattr(task, name) for name in TaskRecord.__dataclass_fields__}, "ttl_ms": None})
    )


@pytest.mark.req("T26-42", "T26-55", "B26-31", "B26-84")
def test_the_table_of_methods_is_this_one_and_no_other() -> None:
    assert sorted(methods.KNOWN) == [
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "subscriptions/listen",
        "tasks/cancel",
        "tasks/get",
        "tasks/update",
        "tools/call",
        "tools/list",
    ]
