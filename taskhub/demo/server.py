"""The demo server: an ordinary MCP server with small tools that do real work, resources and a prompt.

It imports the SDK, pydantic and the standard library, nothing of TaskHub. Tools that need
an answer return an `InputRequiredResult` and are called again with the answers, so that nothing
is kept in memory while a person answers.

Run it alone over stdio with `python -m taskhub.demo.server`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    FormElicitationCapability,
    InputRequest,
    InputRequiredResult,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
    UrlElicitationCapability,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, ValidationError

from taskhub.demo import reading

__all__ = ["server"]

Ctx = Context[Any, Any]

TASK_HINT: Final = "taskhub/task"
MAX_FILES: Final = 500
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
MAX_TEXT: Final = 100_000
MOST_FREQUENT: Final = 5
ROLLOUT_STEP_SECONDS: Final = 0.2
VISIT_URL: Final = "https://modelcontextprotocol.io/"

SKIPPED_DIRECTORIES: Final = frozenset(
    {
        ".git",
        ".hg",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".taskhub",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "venv",
    }
)

Text = Annotated[str, Field(description="The text to work on.", max_length=MAX_TEXT)]

# Tools with these annotations change nothing outside the call, so repeating a call is safe.
READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

server: Final = MCPServer(
    "taskhub-demo",
    title="TaskHub demo",
    version="1.0.0",
    instructions="Small tools that show what a task can do: progress, questions, approval, failure and cancellation.",
    # The SDK configures the root logger of the process when a server is made; INFO would log every call.
    log_level="WARNING",
)


# Asking -----------------------------------------------------------------------------------


def _ask(ctx: Ctx, needs: ClientCapabilities, **questions: InputRequest) -> InputRequiredResult:
    """The result that asks the client `questions`. The tool is then called again from its start, with the answers.
    Raises `ToolError` or `MCPError` if the client's revision or capabilities do not allow the questions."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        # For an older session the SDK would return an internal error without an explanation.
        raise ToolError(f"This tool asks a question, which needs protocol version {MODERN_PROTOCOL_VERSIONS[-1]}.")
    if not _declares(ctx.client_capabilities, needs):
        _refuse(needs)
    return InputRequiredResult(input_requests=questions)


def _declares(have: ClientCapabilities | None, needs: ClientCapabilities) -> bool:
    """Whether the client declared the capabilities that a question needs; `elicitation: {}` alone means forms."""
    if have is None:
        return False
    if needs.sampling is not None and have.sampling is None:
        return False
    if needs.elicitation is None:
        return True
    if have.elicitation is None:
        return False
    if needs.elicitation.url is not None:
        return have.elicitation.url is not None
    return have.elicitation.form is not None or have.elicitation.url is None


def _refuse(needs: ClientCapabilities) -> NoReturn:
    data = MissingRequiredClientCapabilityErrorData(required_capabilities=needs)
    raise MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        "The client did not declare the capability this tool needs",
        data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def _form(message: str, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


FORM: Final = ClientCapabilities(elicitation=ElicitationCapability(form=FormElicitationCapability()))
URL: Final = ClientCapabilities(elicitation=ElicitationCapability(url=UrlElicitationCapability()))
SAMPLING: Final = ClientCapabilities(sampling=SamplingCapability())


def _elicited(ctx: Ctx, key: str) -> ElicitResult | None:
    """The answer to the form or url elicitation `key`; `None` if there is none, or one of another kind."""
    answer = (ctx.input_responses or {}).get(key)
    return answer if isinstance(answer, ElicitResult) else None


# Text -------------------------------------------------------------------------------------


class WordFrequency(BaseModel):
    word: str
    count: int


class WordCount(BaseModel):
    characters: int
    lines: int
    words: int
    distinct_words: int
    most_frequent: list[WordFrequency]


@server.tool(title="Echo", annotations=READ_ONLY, meta={TASK_HINT: "never"}, structured_output=False)
def echo(text: Text) -> str:
    """Give the text back unchanged."""
    return text


@server.tool(title="Count words", annotations=READ_ONLY)
def word_count(text: Text) -> WordCount:
    """Count characters, lines and words, and name the most frequent words (case is ignored)."""
    words = re.findall(r"[^\W_]+(?:['\u2019-][^\W_]+)*", text.casefold())
    counts = Counter(words)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return WordCount(
        characters=len(text),
        lines=len(text.splitlines()),
        words=len(words),
        distinct_words=len(counts),
        most_frequent=[WordFrequency(word=word, count=count) for word, count in ranked[:MOST_FREQUENT]],
    )


# Files ------------------------------------------------------------------------------------


class FileHash(BaseModel):
    path: str
    bytes: int
    sha256: str


class HashReport(BaseModel):
    files: list[FileHash]
    total_bytes: int
    skipped: int = Field(description="Links, special, unreadable and very large files that were left out.")
    truncated: bool = Field(description=f"Whether there were more than {MAX_FILES} files.")


@server.tool(title="Hash files", annotations=READ_ONLY, meta={TASK_HINT: "always"})
async def hash_files(
    path: Annotated[str, Field(description="A file or directory, relative to the directory this server may see.")],
    ctx: Ctx,
) -> HashReport:
    """SHA-256 of every file below a directory this server may see, with progress for each file."""
    base = _allowed_path(path)
    found = await asyncio.to_thread(lambda: list(_first_files(base, MAX_FILES + 1)))
    chosen = found[:MAX_FILES]
    hashes: list[FileHash] = []
    for number, file in enumerate(chosen, start=1):
        name = file.relative_to(base).as_posix() if file != base else file.name
        hashed = await _hash_file(file, name)
        if hashed is not None:
            hashes.append(hashed)
        await ctx.report_progress(number, len(chosen), name)
    return HashReport(
        files=hashes,
        total_bytes=sum(item.bytes for item in hashes),
        skipped=len(chosen) - len(hashes),
        truncated=len(found) > MAX_FILES,
    )


def _allowed_path(path: str) -> Path:
    """The real path, with all links resolved. Raises `ToolError` if it is missing or outside of the root directory."""
    root = Path(os.environ.get("TASKHUB_DEMO_ROOT") or os.curdir).resolve()
    try:
        target = (root / path).resolve(strict=True)
        allowed = target.is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        allowed = False
    if not allowed:
        # The same error for paths that are outside or missing: a difference would tell which files exist elsewhere.
        raise ToolError(f"{path!r} is not inside the directory this server may see")
    return target


def _first_files(base: Path, limit: int) -> Iterator[Path]:
    """Up to `limit` files below `base`, in a stable order; links to directories are not followed."""
    if not base.is_dir():
        yield base
        return
    count = 0
    for directory, names, files in os.walk(base):
        names[:] = sorted(name for name in names if name not in SKIPPED_DIRECTORIES)
        for file in sorted(files):
            if count == limit:
                return
            count += 1
            yield Path(directory, file)


async def _hash_file(file: Path, name: str) -> FileHash | None:
    """Hash one regular file in chunks, so that a cancellation does not wait for a large file. `None` for a file that is
    skipped."""
    try:
        # O_NOFOLLOW, and the checks of the open file, in case the file was replaced by a link meanwhile.
        # O_NONBLOCK, so that opening a named pipe does not block.
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb", buffering=0) as source:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        digest = hashlib.sha256()
        size = 0
        try:
            while chunk := await asyncio.to_thread(source.read, CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        except OSError:
            return None
    return FileHash(path=name, bytes=size, sha256=digest.hexdigest())


# Time -------------------------------------------------------------------------------------


class Countdown(BaseModel):
    steps: int
    seconds: float = Field(description="How long it really took.")


@server.tool(title="Count down", annotations=READ_ONLY, meta={TASK_HINT: "always"})
async def countdown(
    ctx: Ctx,
    seconds: Annotated[float, Field(description="How long to take.", ge=0, le=3600)] = 10,
    steps: Annotated[int, Field(description="How many steps to report.", ge=1, le=1000)] = 10,
) -> Countdown:
    """Sleep for a while and report each step; cancelling stops it at once."""
    started = time.monotonic()
    await ctx.report_progress(0, steps, f"{_duration(seconds)} to go")
    for step in range(1, steps + 1):
        # Sleep until the time of the step, not for its length, so that delays do not add up.
        await asyncio.sleep(max(0.0, started + seconds * step / steps - time.monotonic()))
        left = seconds * (steps - step) / steps
        await ctx.report_progress(step, steps, f"{_duration(left)} to go" if left else "Done")
    return Countdown(steps=steps, seconds=round(time.monotonic() - started, 3))


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.0f} min"


# Deployment -------------------------------------------------------------------------------


class Deployment(BaseModel):
    service: str
    version: str
    environment: str
    deployed: bool
    message: str
    steps: list[str] = []


@server.tool(
    title="Deploy a service",
    # The annotations of a real rollout, which replaces what runs and must not be repeated without being asked for.
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
    ),
    meta={TASK_HINT: "always"},
)
async def deploy(
    service: Annotated[str, Field(description="Which service.", min_length=1, max_length=100)],
    version: Annotated[str, Field(description="Which version, such as 1.4.2.", min_length=1, max_length=100)],
    environment: Annotated[Literal["staging", "production"], Field(description="Where to.")],
    ctx: Ctx,
) -> Deployment | InputRequiredResult:
    """Ask for confirmation, then roll a version out step by step. The rollout is simulated."""
    answer = _elicited(ctx, "confirm")
    confirmed = (answer.content or {}).get("confirm") if answer is not None else None
    if answer is None or (answer.action == "accept" and not isinstance(confirmed, bool)):
        schema = {
            "type": "object",
            "properties": {
                "confirm": {
                    "type": "boolean",
                    "title": "Deploy",
                    "description": f"Replaces the version of {service} that runs in {environment}.",
                }
            },
            "required": ["confirm"],
        }
        return _ask(ctx, FORM, confirm=_form(f"Deploy {service} {version} to {environment}?", schema))
    if answer.action != "accept" or confirmed is not True:
        reason = "the question was dismissed" if answer.action == "cancel" else "it was declined"
        return Deployment(
            service=service,
            version=version,
            environment=environment,
            deployed=False,
            message=f"{service} {version} was not deployed to {environment}: {reason}.",
        )
    steps = ["Fetch the image", "Start new instances", "Wait until they are healthy", "Move traffic", "Stop old ones"]
    for number, step in enumerate(steps):
        await ctx.report_progress(number, len(steps), step)
        await asyncio.sleep(ROLLOUT_STEP_SECONDS)
    await ctx.report_progress(len(steps), len(steps), "Rolled out")
    return Deployment(
        service=service,
        version=version,
        environment=environment,
        deployed=True,
        message=f"{service} {version} runs in {environment}.",
        steps=steps,
    )


# Questions --------------------------------------------------------------------------------

SURVEY_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "title": "Name",
            "description": "How we should call you.",
            "minLength": 2,
            "maxLength": 40,
        },
        "email": {"type": "string", "title": "Email", "format": "email"},
        "website": {"type": "string", "title": "Website", "format": "uri"},
        "team_size": {"type": "integer", "title": "Team size", "minimum": 1, "maximum": 500, "default": 5},
        "satisfaction": {
            "type": "number",
            "title": "Satisfaction",
            "description": "Fractions are allowed.",
            "minimum": 0,
            "maximum": 10,
            "default": 7.5,
        },
        "subscribe": {"type": "boolean", "title": "Send me news", "default": False},
        "start_date": {"type": "string", "title": "Start date", "format": "date"},
        "meeting_at": {"type": "string", "title": "Meeting", "format": "date-time"},
        "color": {"type": "string", "title": "Colour", "enum": ["red", "green", "blue"], "default": "green"},
        "plan": {
            "type": "string",
            "title": "Plan",
            "oneOf": [
                {"const": "free", "title": "Free"},
                {"const": "team", "title": "Team"},
                {"const": "enterprise", "title": "Enterprise"},
            ],
            "default": "team",
        },
        "languages": {
            "type": "array",
            "title": "Languages",
            "items": {"type": "string", "enum": ["python", "typescript", "go", "rust"]},
            "minItems": 1,
            "maxItems": 3,
            "default": ["python"],
        },
        "topics": {
            "type": "array",
            "title": "Topics",
            "items": {
                "anyOf": [
                    {"const": "tasks", "title": "Durable tasks"},
                    {"const": "approval", "title": "Approvals"},
                    {"const": "audit", "title": "Audit log"},
                ]
            },
        },
    },
    "required": ["name", "email", "plan"],
}


# The same rules as in SURVEY_SCHEMA, because the client may not have checked the answers. A comment and not
# a docstring, because a docstring would become a description in the tool's output schema.
class SurveyAnswers(BaseModel):
    name: str = Field(min_length=2, max_length=40)
    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    website: str | None = Field(default=None, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:\S+$")
    team_size: int | None = Field(default=None, ge=1, le=500)
    satisfaction: float | None = Field(default=None, ge=0, le=10)
    subscribe: bool | None = None
    start_date: date | None = None
    meeting_at: datetime | None = None
    color: Literal["red", "green", "blue"] | None = None
    plan: Literal["free", "team", "enterprise"]
    languages: list[Literal["python", "typescript", "go", "rust"]] | None = Field(
        default=None, min_length=1, max_length=3
    )
    topics: list[Literal["tasks", "approval", "audit"]] | None = None


class SurveyResult(BaseModel):
    action: Literal["accept", "decline", "cancel"]
    answers: SurveyAnswers | None = None


@server.tool(title="Fill in a survey", annotations=READ_ONLY, meta={TASK_HINT: "always"})
def survey(ctx: Ctx) -> SurveyResult | InputRequiredResult:
    """Ask one form with every kind of field and give the answers back."""
    message = "A few questions about you and your team"
    answer = _elicited(ctx, "survey")
    if answer is not None and answer.action != "accept":
        return SurveyResult(action=answer.action)
    if answer is not None:
        try:
            return SurveyResult(action="accept", answers=SurveyAnswers.model_validate(answer.content or {}))
        except ValidationError as error:
            fields = sorted({str(item["loc"][0]) for item in error.errors()})
            message = f"{message} (please correct: {', '.join(fields)})"
    return _ask(ctx, FORM, survey=_form(message, SURVEY_SCHEMA))


@server.tool(
    title="Summarize",
    # Not idempotent: a model answers, so the same text may give another summary.
    annotations=ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=False
    ),
    structured_output=False,
)
def summarize(text: Text, ctx: Ctx) -> str | InputRequiredResult:
    """Have the client's model sum the text up in one sentence."""
    answer = (ctx.input_responses or {}).get("summary")
    if isinstance(answer, CreateMessageResult | CreateMessageResultWithTools):
        blocks = answer.content if isinstance(answer.content, list) else [answer.content]
        summary = "\n".join(block.text for block in blocks if isinstance(block, TextContent)).strip()
        if not summary:
            raise ToolError("The model answered without text")
        return summary
    params = CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text=f"Sum this up in one sentence:\n\n{text}"))],
        system_prompt="You write short and faithful summaries.",
        max_tokens=200,
    )
    return _ask(ctx, SAMPLING, summary=CreateMessageRequest(params=params))


@server.tool(title="Visit a page", annotations=READ_ONLY, structured_output=False)
def visit(ctx: Ctx) -> str | InputRequiredResult:
    """Ask a person to open a web page and say whether they agreed."""
    answer = _elicited(ctx, "visit")
    if answer is None:
        params = ElicitRequestURLParams(message="Please have a look at the MCP home page", url=VISIT_URL)
        return _ask(ctx, URL, visit=ElicitRequest(params=params))
    if answer.action == "accept":
        # Accepting means consent to open the page; the server is not told what happens there.
        return f"The person agreed to open {VISIT_URL}"
    return f"{VISIT_URL} was not opened"


# Failure ----------------------------------------------------------------------------------


@server.tool(title="Fail", annotations=READ_ONLY, structured_output=False)
def fail(
    kind: Annotated[
        Literal["tool_error", "protocol_error", "crash"],
        Field(description="tool_error: an error result; protocol_error: a JSON-RPC error; crash: a bug in the tool."),
    ],
) -> CallToolResult:
    """Fail on purpose, in one of the three ways a call can."""
    if kind == "protocol_error":
        raise MCPError(INVALID_PARAMS, "This call was refused on purpose", {"kind": kind})
    if kind == "crash":
        raise RuntimeError("This tool crashed on purpose")
    return CallToolResult(content=[TextContent(text="This tool failed on purpose")], is_error=True)


reading.register(server, _allowed_path, _first_files)


if __name__ == "__main__":
    server.run("stdio")
