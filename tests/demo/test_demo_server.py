"""The demo server, called directly through the SDK's in-process client."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from taskhub.demo import server as demo

pytestmark = pytest.mark.anyio

Progress = list[tuple[float, float | None, str | None]]

ROOT = Path(__file__).parents[2]
DEPLOY = {"service": "shop", "version": "1.4.2", "environment": "production"}
ANSWERS: dict[str, str | int | float | bool | list[str] | None] = {
    "name": "Ada",
    "email": "ada@example.org",
    "website": "https://example.org/ada",
    "team_size": 3,
    "satisfaction": 9.5,
    "subscribe": True,
    "start_date": "2026-08-01",
    "meeting_at": "2026-08-02T09:30:00Z",
    "color": "blue",
    "plan": "enterprise",
    "languages": ["python", "go"],
    "topics": ["tasks"],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def quick_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ROLLOUT_STEP_SECONDS", 0)


def text(result: CallToolResult) -> str:
    assert len(result.content) == 1
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


def data(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def elicitor(*answers: ElicitResult) -> tuple[ElicitationFnT, list[ElicitRequestParams]]:
    """A client callback that gives these answers in turn, and what it was asked."""
    asked: list[ElicitRequestParams] = []

    async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params)
        return answers[len(asked) - 1]

    return elicit, asked


def noting(seen: Progress) -> ProgressFnT:
    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    return note


async def first_round(
    name: str, arguments: dict[str, Any] | None = None, answers: InputResponses | None = None
) -> CallToolResult | InputRequiredResult:
    """One call without the client's loop around it, as the hub makes it."""
    elicit, _ = elicitor()

    async def never(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
        raise AssertionError

    async with Client(demo.server, elicitation_callback=elicit, sampling_callback=never) as client:
        return await client.session.call_tool(name, arguments, input_responses=answers, allow_input_required=True)


async def test_lists_exactly_its_tools_with_titles_hints_and_policies() -> None:
    async with Client(demo.server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [
        "echo",
        "word_count",
        "hash_files",
        "countdown",
        "deploy",
        "survey",
        "summarize",
        "visit",
        "fail",
    ]
    modes = {name: (tool.meta or {}).get("taskhub/task", "auto") for name, tool in tools.items()}
    assert modes == {
        "echo": "never",
        "word_count": "auto",
        "hash_files": "always",
        "countdown": "always",
        "deploy": "always",
        "survey": "always",
        "summarize": "auto",
        "visit": "auto",
        "fail": "auto",
    }
    for tool in tools.values():
        assert tool.title
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name != "deploy")
    deploy = tools["deploy"].annotations
    assert deploy is not None
    assert (deploy.destructive_hint, deploy.idempotent_hint) == (True, False)
    for name in ("word_count", "hash_files", "countdown", "deploy", "survey"):
        assert tools[name].output_schema is not None


async def test_echo_gives_the_text_back() -> None:
    async with Client(demo.server) as client:
        result = await client.call_tool("echo", {"text": "Grüße\n"})
    assert text(result) == "Grüße\n"
    assert result.structured_content is None


async def test_word_count_counts_and_ranks() -> None:
    async with Client(demo.server) as client:
        result = await client.call_tool("word_count", {"text": "The cat, the DOG\nand the cat's well-known dog."})
    assert data(result) == {
        "characters": 46,
        "lines": 2,
        "words": 9,
        "distinct_words": 6,
        "most_frequent": [
            {"word": "the", "count": 3},
            {"word": "dog", "count": 2},
            {"word": "and", "count": 1},
            {"word": "cat", "count": 1},
            {"word": "cat's", "count": 1},
        ],
    }


async def test_hash_files_hashes_every_file_with_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKHUB_DEMO_ROOT", str(tmp_path))
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_bytes(b"a")
    (tmp_path / "docs" / "deep" / "b.bin").write_bytes(bytes(2_000_000))
    (tmp_path / "docs" / ".git").mkdir()
    (tmp_path / "docs" / ".git" / "config").write_bytes(b"hidden")
    (tmp_path / "docs" / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "docs" / "pipe")
    progress: Progress = []
    async with Client(demo.server) as client:
        result = await client.call_tool("hash_files", {"path": "docs"}, progress_callback=noting(progress))
    assert data(result) == {
        "files": [
            {"path": "a.txt", "bytes": 1, "sha256": hashlib.sha256(b"a").hexdigest()},
            {"path": "deep/b.bin", "bytes": 2_000_000, "sha256": hashlib.sha256(bytes(2_000_000)).hexdigest()},
        ],
        "total_bytes": 2_000_001,
        "skipped": 2,
        "truncated": False,
    }
    assert progress == [(1, 4, "a.txt"), (2, 4, "link"), (3, 4, "pipe"), (4, 4, "deep/b.bin")]


async def test_hash_files_stops_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKHUB_DEMO_ROOT", str(tmp_path))
    monkeypatch.setattr(demo, "MAX_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(str(number))
    async with Client(demo.server) as client:
        report = data(await client.call_tool("hash_files", {"path": "."}))
        single = data(await client.call_tool("hash_files", {"path": "4.txt"}))
    assert [file["path"] for file in report["files"]] == ["0.txt", "1.txt", "2.txt"]
    assert report["truncated"] is True
    assert single["files"] == [{"path": "4.txt", "bytes": 1, "sha256": hashlib.sha256(b"4").hexdigest()}]


@pytest.mark.parametrize("path", ["..", "/etc", "../outside", "link", "missing", "a\x00b"])
async def test_hash_files_refuses_what_lies_outside(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    monkeypatch.setenv("TASKHUB_DEMO_ROOT", str(root))
    async with Client(demo.server) as client:
        result = await client.call_tool("hash_files", {"path": path})
    assert result.is_error
    assert "is not inside the directory this server may see" in text(result)
    assert str(tmp_path) not in text(result)


async def test_countdown_reports_each_step() -> None:
    progress: Progress = []
    async with Client(demo.server) as client:
        result = await client.call_tool("countdown", {"seconds": 0.2, "steps": 2}, progress_callback=noting(progress))
    assert progress == [(0, 2, "0.2 s to go"), (1, 2, "0.1 s to go"), (2, 2, "Done")]
    assert data(result)["steps"] == 2
    assert 0.2 <= data(result)["seconds"] < 2


async def test_countdown_stops_when_it_is_cancelled() -> None:
    progress: Progress = []
    started = time.monotonic()
    async with Client(demo.server) as client:
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool("countdown", {"seconds": 60, "steps": 600}, progress_callback=noting(progress))
        assert scope.cancelled_caught
        reported = len(progress)
        await anyio.sleep(0.3)
    assert len(progress) == reported
    assert time.monotonic() - started < 5


async def test_a_long_countdown_is_told_in_minutes() -> None:
    """Not in powers of ten of seconds."""
    told: list[str | None] = []
    async with Client(demo.server) as client:
        with anyio.fail_after(10), anyio.CancelScope() as scope:

            async def first(progress: float, total: float | None, message: str | None) -> None:
                told.append(message)
                scope.cancel()

            await client.call_tool("countdown", {"seconds": 2160, "steps": 1}, progress_callback=first)
    assert told == ["36 min to go"]


@pytest.mark.parametrize("arguments", [{"seconds": -1}, {"steps": 0}, {"seconds": "soon"}])
async def test_countdown_refuses_other_numbers(arguments: dict[str, Any]) -> None:
    async with Client(demo.server) as client:
        result = await client.call_tool("countdown", arguments)
    assert result.is_error


async def test_deploy_asks_first_and_keeps_no_state() -> None:
    result = await first_round("deploy", DEPLOY)
    assert isinstance(result, InputRequiredResult)
    assert result.request_state is None
    assert result.input_requests is not None
    assert list(result.input_requests) == ["confirm"]
    question = result.input_requests["confirm"]
    assert isinstance(question, ElicitRequest)
    assert isinstance(question.params, ElicitRequestFormParams)
    assert question.params.message == "Deploy shop 1.4.2 to production?"
    assert question.params.requested_schema["required"] == ["confirm"]
    # The second round is answered by whoever gets it: a new client, with nothing but the answers.
    answers: InputResponses = {"confirm": ElicitResult(action="accept", content={"confirm": True})}
    done = await first_round("deploy", DEPLOY, answers)
    assert isinstance(done, CallToolResult)
    assert data(done)["deployed"] is True


async def test_deploy_rolls_out_when_confirmed() -> None:
    elicit, asked = elicitor(ElicitResult(action="accept", content={"confirm": True}))
    progress: Progress = []
    async with Client(demo.server, elicitation_callback=elicit) as client:
        result = await client.call_tool("deploy", DEPLOY, progress_callback=noting(progress))
    assert len(asked) == 1
    assert data(result)["deployed"] is True
    assert data(result)["message"] == "shop 1.4.2 runs in production."
    assert len(data(result)["steps"]) == 5
    assert [done for done, _, _ in progress] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ElicitResult(action="accept", content={"confirm": False}), "it was declined"),
        (ElicitResult(action="decline"), "it was declined"),
        (ElicitResult(action="cancel"), "the question was dismissed"),
    ],
)
async def test_deploy_says_that_it_did_not_deploy(answer: ElicitResult, reason: str) -> None:
    elicit, _ = elicitor(answer)
    async with Client(demo.server, elicitation_callback=elicit) as client:
        result = await client.call_tool("deploy", DEPLOY)
    assert data(result)["deployed"] is False
    assert data(result)["message"] == f"shop 1.4.2 was not deployed to production: {reason}."


@pytest.mark.parametrize(
    "answers",
    [
        {"other": ElicitResult(action="accept", content={"confirm": True})},
        {"confirm": ElicitResult(action="accept")},
        {"confirm": ElicitResult(action="accept", content={"confirm": "yes"})},
    ],
)
async def test_deploy_asks_again_without_a_usable_answer(answers: InputResponses) -> None:
    assert isinstance(await first_round("deploy", DEPLOY, answers), InputRequiredResult)


async def test_deploy_refuses_another_environment() -> None:
    result = await first_round("deploy", DEPLOY | {"environment": "moon"})
    assert isinstance(result, CallToolResult)
    assert result.is_error


@pytest.mark.parametrize(
    ("name", "arguments", "capability"),
    [
        ("deploy", DEPLOY, {"elicitation": {"form": {}}}),
        ("survey", {}, {"elicitation": {"form": {}}}),
        ("visit", {}, {"elicitation": {"url": {}}}),
        ("summarize", {"text": "x"}, {"sampling": {}}),
    ],
)
async def test_asks_nothing_that_the_client_cannot_answer(
    name: str, arguments: dict[str, Any], capability: dict[str, Any]
) -> None:
    async with Client(demo.server) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool(name, arguments)
    assert refused.value.code == -32021
    assert refused.value.data == {"requiredCapabilities": capability}


async def test_a_question_on_an_older_session_is_an_explained_tool_error() -> None:
    elicit, _ = elicitor()
    async with Client(demo.server, mode="legacy", elicitation_callback=elicit) as client:
        result = await client.call_tool("deploy", DEPLOY)
        echoed = await client.call_tool("echo", {"text": "still here"})
    assert result.is_error
    assert "needs protocol version 2026-07-28" in text(result)
    assert text(echoed) == "still here"


async def test_survey_form_has_every_kind_of_field() -> None:
    result = await first_round("survey")
    assert isinstance(result, InputRequiredResult)
    assert result.input_requests is not None
    question = result.input_requests["survey"]
    assert isinstance(question, ElicitRequest)
    assert isinstance(question.params, ElicitRequestFormParams)
    fields = question.params.requested_schema["properties"]
    assert (fields["name"]["minLength"], fields["name"]["maxLength"]) == (2, 40)
    formats = {name: field["format"] for name, field in fields.items() if "format" in field}
    assert formats == {"email": "email", "website": "uri", "start_date": "date", "meeting_at": "date-time"}
    kinds = {name: field["type"] for name, field in fields.items()}
    assert (kinds["team_size"], kinds["satisfaction"], kinds["subscribe"]) == ("integer", "number", "boolean")
    assert (fields["team_size"]["minimum"], fields["team_size"]["maximum"]) == (1, 500)
    assert fields["color"]["enum"] == ["red", "green", "blue"]
    assert fields["plan"]["oneOf"][0] == {"const": "free", "title": "Free"}
    assert fields["languages"]["items"]["enum"][0] == "python"
    assert fields["topics"]["items"]["anyOf"][0] == {"const": "tasks", "title": "Durable tasks"}
    assert sum("default" in field for field in fields.values()) == 6


async def test_survey_gives_the_answers_back() -> None:
    elicit, _ = elicitor(ElicitResult(action="accept", content=ANSWERS))
    async with Client(demo.server, elicitation_callback=elicit) as client:
        result = await client.call_tool("survey")
    assert data(result) == {"action": "accept", "answers": ANSWERS}


async def test_survey_asks_again_and_names_the_wrong_fields() -> None:
    elicit, asked = elicitor(
        ElicitResult(action="accept", content={**ANSWERS, "team_size": 0, "email": "nowhere"}),
        ElicitResult(action="accept", content=ANSWERS),
    )
    async with Client(demo.server, elicitation_callback=elicit) as client:
        result = await client.call_tool("survey")
    assert "please correct: email, team_size" in asked[1].message
    assert data(result)["answers"] == ANSWERS


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_survey_may_be_refused(action: Any) -> None:
    elicit, _ = elicitor(ElicitResult(action=action))
    async with Client(demo.server, elicitation_callback=elicit) as client:
        assert data(await client.call_tool("survey")) == {"action": action, "answers": None}


async def test_summarize_has_the_clients_model_answer() -> None:
    asked: list[CreateMessageRequestParams] = []

    async def answer(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
        asked.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(text="Short. "), model="test")

    async with Client(demo.server, sampling_callback=answer) as client:
        result = await client.call_tool("summarize", {"text": "A long story"})
    assert text(result) == "Short."
    assert "A long story" in str(asked[0].messages[0].content)
    assert asked[0].max_tokens == 200


async def test_summarize_without_text_is_a_tool_error() -> None:
    silent = CreateMessageResult(role="assistant", content=TextContent(text=" "), model="test")
    result = await first_round("summarize", {"text": "x"}, {"summary": silent})
    assert isinstance(result, CallToolResult)
    assert result.is_error
    wrong: InputResponses = {"summary": ElicitResult(action="accept")}
    asked = await first_round("summarize", {"text": "x"}, wrong)
    assert isinstance(asked, InputRequiredResult)
    assert asked.input_requests is not None
    assert isinstance(asked.input_requests["summary"], CreateMessageRequest)


@pytest.mark.parametrize(
    ("action", "said"), [("accept", "agreed to open"), ("decline", "was not opened"), ("cancel", "was not opened")]
)
async def test_visit_asks_in_url_mode(action: Any, said: str) -> None:
    elicit, asked = elicitor(ElicitResult(action=action))
    async with Client(demo.server, elicitation_callback=elicit) as client:
        result = await client.call_tool("visit")
    assert isinstance(asked[0], ElicitRequestURLParams)
    assert asked[0].url == "https://modelcontextprotocol.io/"
    assert said in text(result)
    assert not result.is_error


async def test_fail_as_a_tool_error() -> None:
    async with Client(demo.server) as client:
        result = await client.call_tool("fail", {"kind": "tool_error"})
    assert result.is_error
    assert text(result) == "This tool failed on purpose"


async def test_fail_as_a_protocol_error() -> None:
    async with Client(demo.server) as client:
        with pytest.raises(MCPError) as failed:
            await client.call_tool("fail", {"kind": "protocol_error"})
    assert failed.value.code == -32602
    assert failed.value.message == "This call was refused on purpose"


async def test_fail_by_a_crash_hides_the_reason_and_leaves_the_server_alive() -> None:
    async with Client(demo.server) as client:
        result = await client.call_tool("fail", {"kind": "crash"})
        alive = await client.call_tool("echo", {"text": "alive"})
    assert result.is_error
    assert text(result) == "Error executing tool fail"
    assert text(alive) == "alive"


# Reading ----------------------------------------------------------------------------------


async def test_it_tells_about_itself() -> None:
    async with Client(demo.server) as client:
        (listed,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource("demo://readme")).contents
    assert (listed.uri, listed.mime_type) == ("demo://readme", "text/markdown")
    assert isinstance(content, TextResourceContents)
    assert "every call of one of its tools is a task" in content.text


async def test_text_files_are_read_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.txt"
    outside.write_text("secret")
    for name, text_ in {
        "note.md": "a note",
        "deep/er.txt": "deeper",
        ".hidden.txt": "secret",
        ".taskhub/credentials.txt": "secret",
        "key.pem": "secret",
        "big.txt": "x" * (256 * 1024 + 1),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text_)
    (root / "link.txt").symlink_to(outside)
    (root / "dir.txt").mkdir()
    monkeypatch.setenv("TASKHUB_DEMO_ROOT", str(root))
    async with Client(demo.server) as client:
        for name, expected in {"note.md": "a note", "deep/er.txt": "deeper"}.items():
            (content,) = (await client.read_resource(f"demo://files/{name}")).contents
            assert isinstance(content, TextResourceContents)
            assert content.text == expected
        for name in (
            ".hidden.txt", ".taskhub/credentials.txt", "key.pem", "big.txt", "link.txt", "dir.txt", "missing.md",
            "../outside.txt", "deep/../.hidden.txt", "%2e%2e/outside.txt",
        ):  # fmt: skip
            with pytest.raises(MCPError) as failed:
                await client.read_resource(f"demo://files/{name}")
            assert "secret" not in str(failed.value)
        ref = ResourceTemplateReference(uri="demo://files/{+path}")
        found = await client.complete(ref, {"name": "path", "value": ""})
        assert found.completion.values == ["note.md", "deep/er.txt"]
        found = await client.complete(ref, {"name": "path", "value": "de"})
        assert found.completion.values == ["deep/er.txt"]


async def test_a_prompt_has_a_deployment_reviewed() -> None:
    async with Client(demo.server) as client:
        (listed,) = (await client.list_prompts()).prompts
        got = await client.get_prompt("review_deploy", {"service": "shop", "version": "1.4.2"})
        ref = PromptReference(name="review_deploy")
        all_of_them = await client.complete(ref, {"name": "environment", "value": ""})
        one = await client.complete(ref, {"name": "environment", "value": "pro"})
        none = await client.complete(ref, {"name": "service", "value": ""})
    assert [(item.name, item.required) for item in listed.arguments or ()] == [
        ("service", True),
        ("version", True),
        ("environment", False),
    ]
    (message,) = got.messages
    assert isinstance(message.content, TextContent)
    assert message.content.text.startswith("We are about to deploy shop 1.4.2 to production.")
    assert all_of_them.completion.values == ["staging", "production"]
    assert (one.completion.values, none.completion.values) == (["production"], [])


async def test_runs_over_stdio() -> None:
    elicit, _ = elicitor(ElicitResult(action="decline"))
    command = StdioServerParameters(command=sys.executable, args=["-m", "taskhub.demo.server"], cwd=ROOT)
    async with Client(command, elicitation_callback=elicit) as client:
        assert text(await client.call_tool("echo", {"text": "over a pipe"})) == "over a pipe"
        assert data(await client.call_tool("deploy", DEPLOY))["deployed"] is False
