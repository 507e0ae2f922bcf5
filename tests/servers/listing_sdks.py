"""Servers of SDKs in the matrix, which speak what the reference servers do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.servers.kinds import BIG, Server, Step
from tests.servers.speakers import accept

FASTMCP: Final = Server(
    name="fastmcp",
    package="fastmcp fastmcp.txt",
    home="fastmcp",
    about="with `TasksExtension`, over HTTP",
    command="{bin}/python {here}/fastmcp_server.py {port}",
    url="http://127.0.0.1:{port}/mcp",
    version="2026-07-28",
    quick=True,
    call=(
        Step("add", {"a": 1, "b": 2}),
        Step("add", {"a": "x"}),
        Step("fail", {"how": "at once"}),
        Step("count", {"steps": 3}),
        Step("research", {"topic": "snow"}),
        Step("fail_as_task", {"how": "later"}),
    ),
    question=(
        Step("pick", answers={"elicitation/create": accept(colour="red")}),
        Step("pick"),
        Step("book", {"place": "Oslo"}, {"elicitation/create": lambda params: _booked(params["message"])}),
    ),
    cancel=(Step("add", {"a": 1, "b": 1}), Step("sleep", {"seconds": 60}), Step("add", {"a": 2, "b": 2})),
    big=(Step("repeat", {"text": "hé ", "times": BIG // 3}),),
)


def _booked(message: str) -> dict[str, object]:
    content = {"day": "Monday"} if "day" in message.lower() and "name" not in message.lower() else {"name": "Ann"}
    return {"action": "accept", "content": content}


_EXAMPLE: Final = "{home}/source/mcp-{version}/examples/servers/everything-server"

PYTHON_HTTP: Final = Server(
    name="python-sdk-http",
    package="mcp python_sdk.txt",
    home="python_sdk",
    about="everything-server, over HTTP",
    command="{bin}/python -m mcp_everything_server --port {port} --log-level WARNING",
    url="http://127.0.0.1:{port}/mcp",
    env={"PYTHONPATH": _EXAMPLE},
    version="2026-07-28",
    protocol="caller",
    call=(
        Step("test_simple_text"),
        Step("test_image_content"),
        Step("test_audio_content"),
        Step("test_embedded_resource"),
        Step("test_multiple_content_types"),
        Step("test_tool_with_logging"),
        Step("test_tool_with_progress"),
        Step("test_error_handling"),
        Step("test_x_mcp_header", {"region": "north"}),
        Step("test_x_mcp_header"),
        Step("test_logging_tool"),
        Step("json_schema_2020_12_tool"),
        Step("test_trigger_tool_change"),
        Step("test_trigger_prompt_change"),
        Step("test_missing_capability"),
    ),
    question=(
        Step("test_sampling", {"prompt": "Hi"}),
        Step("test_elicitation", {"message": "Who?"}, {"elicitation/create": accept(response="Ann")}),
        Step("test_elicitation", {"message": "Who?"}),
        Step("test_elicitation_sep1034_defaults", answers={"elicitation/create": accept(name="Ann", age=30)}),
        Step("test_elicitation_sep1330_enums", answers={"elicitation/create": lambda params: {"action": "cancel"}}),
        Step("test_streaming_elicitation", answers={"elicitation/create": accept(response="word")}),
        Step("test_input_required_result_elicitation", answers={"elicitation/create": accept(name="Ann")}, newest=True),
        Step("test_input_required_result_sampling", newest=True),
        Step("test_input_required_result_list_roots", newest=True),
        Step("test_input_required_result_request_state", answers={"elicitation/create": accept(ok=True)}, newest=True),
        Step(
            "test_input_required_result_multiple_inputs",
            answers={"elicitation/create": accept(name="Ann")},
            newest=True,
        ),
        Step(
            "test_input_required_result_multi_round",
            answers={
                "elicitation/create": lambda params: {
                    "action": "accept",
                    "content": {"name": "Ann"} if "name" in params["message"] else {"color": "red"},
                }
            },
            newest=True,
        ),
        Step("test_input_required_result_tampered_state", answers={"elicitation/create": accept(ok=True)}, newest=True),
    ),
    not_called={
        "test_input_required_result_capabilities": "it asks again for ever",
        "test_reconnection": "it hangs up on its caller: the conformance suite tries it",
    },
    masks={r"^(None|\d+)$": "TOKEN"},
)

PYTHON_STDIO: Final = replace(
    PYTHON_HTTP,
    name="python-sdk-stdio",
    about="everything-server, by stdio",
    command='{bin}/python -c "from mcp_everything_server.server import mcp; mcp.run()"',
    url="",
    protocol="",
)

PYTHON_SSE: Final = Server(
    name="python-sdk-sse",
    package="mcp python_sdk_1_9.txt",
    home="python_sdk_1_9",
    about="over HTTP+SSE",
    command="{bin}/python {here}/sse_server.py {port}",
    url="sse+http://127.0.0.1:{port}/sse",
    version="2025-03-26",
    quick=True,
    call=(
        Step("add", {"a": 1, "b": 2}),
        Step("add", {"a": "x"}),
        Step("fail", {"how": "at once"}),
        Step("steps", {"count": 3}),
    ),
    question=(Step("summarize", {"text": "Long."}), Step("roots")),
    cancel=(Step("add", {"a": 1, "b": 1}), Step("sleep", {"seconds": 60}), Step("add", {"a": 2, "b": 2})),
    cancel_ends="a cancelled call ends the session: a direct client has to connect anew, one of the hub goes on",
    big=(Step("repeat", {"text": "hé ", "times": BIG // 3}),),
)
