"""Names that two rooms must agree on without importing each other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

HINT_CHANNEL: Final = "taskhub"
"""The Postgres NOTIFY channel of all hints."""

HINT_SOCKET: Final = "ws/hints"
"""The path of the WebSocket that tells consoles what has changed."""

QUEUE: Final = "taskhub"
"""The one procrastinate queue. Fixed and short: procrastinate builds channel names from it."""

WAKE_JOB: Final = "taskhub.run"
"""The procrastinate task that wakes the workers. Its name never changes across releases."""

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""A key in the `_meta` of every request since revision 2026-07-28. Requests of earlier revisions lack it."""

META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
"""A key in the `_meta` of results since revision 2026-07-28. Its value describes the server that made the result."""

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
IDEMPOTENCY_KEY: Final = "io.taskhub/idempotencyKey"
TASK_HEADER: Final = "TaskHub-Task"
"""The header of a response that keeps its caller waiting for a task: the task's id."""
PROGRESS: Final = "io.taskhub/progress"
"""A key in the `_meta` of a task that reports progress: `{"progress": 3, "total": 5}`, without an unknown `total`."""
TOOL_USE: Final = "claudecode/toolUseId"
"""A key in the `_meta` of a call by Claude Code: the id that the call has in Claude Code's transcripts."""
MODE_HINT: Final = "taskhub/task"
"""A key in the `_meta` of a tool's definition: the mode that the tool asks for, one of `core.states.TaskMode`."""

HUB_TOOL_PREFIX: Final = "taskhub_"
"""The prefix of the names of the hub's own tools. No other tool is exposed with it."""

CALL_SCOPES: Final = ("tasks:call", "tasks:read", "tasks:answer", "tasks:cancel")
"""The scopes of MCP clients: a token has them unless others are chosen."""
APPROVALS_SCOPE: Final = "approvals:request"
"""The scope of `/api/v1/approvals`."""
SCOPES: Final = (*CALL_SCOPES, APPROVALS_SCOPE)

OAUTH_ISSUER: Final = "taskhub/oauth"
"""The issuer of clients that the built-in authorization server signed in. Not a URL, so that clients keep their tasks
when TaskHub moves to another address."""
CONSOLE_ISSUER: Final = "taskhub/console"
"""The issuer of the clients whose calls people make themselves, in the console. They have no tokens."""
PERSON_ISSUERS: Final = (OAUTH_ISSUER, CONSOLE_ISSUER)
"""The issuers of clients that stand for a person, whom their subject names."""

MAX_URI: Final = 1_024
"""The longest uri of a resource, or template of uris, in characters."""

MAX_EXPOSED_NAME: Final = 60
"""The longest exposed name of a tool or prompt, in characters. The APIs of models allow 64, and some programs put their
own name for the hub in front."""

_DIGITS: Final = 8
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class NameRule:
    """The rule for tool names of one model API: `pattern` matches the names that it takes."""

    api: str
    pattern: re.Pattern[str]
    takes: str
    """The pattern in words, for people."""


MODEL_APIS: Final = (
    # API reference of OpenAI, chat completions and responses: `name` of a function tool.
    NameRule("OpenAI", re.compile(r"[A-Za-z0-9_-]{1,64}"), "letters, digits, _ and -, up to 64 characters"),
    # API reference of Anthropic, messages: `name` of a tool; the pattern stands in the error message.
    NameRule("Anthropic", re.compile(r"[A-Za-z0-9_-]{1,128}"), "letters, digits, _ and -, up to 128 characters"),
    # API reference of Gemini, `FunctionDeclaration`; that of Vertex AI and the error message name the first character.
    NameRule(
        "Gemini",
        re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
        "letters, digits, _, -, dots and colons, the first a letter or _, up to 64 characters",
    ),
)


def refusing_apis(name: str) -> tuple[NameRule, ...]:
    """The rules of `MODEL_APIS` that a tool's name breaks."""
    return tuple(rule for rule in MODEL_APIS if rule.pattern.fullmatch(name) is None)


def exposed_name(server: str, name: str, *, prefix: str, taken: Container[str], full: bool = False) -> str:
    """The exposed name of a server's tool or prompt; never one of `taken`.

    It is the tool's own name, unless that is too long, taken or begins like a hub tool's, or the server has a prefix.
    A made name is the same each time, is valid for every API of `MODEL_APIS`, and names the server: `SERVER__tool`.
    With `full`, a tool of a server without a prefix has a made name, whatever names are taken."""
    return next(found for found in _candidates(server, name, prefix, full=full) if found not in taken)


def _candidates(server: str, name: str, prefix: str, *, full: bool) -> Iterator[str]:
    own = prefix + name
    if full and not prefix:
        pass
    elif prefix or len(own) > MAX_EXPOSED_NAME:
        yield _made(own, server, name)
    elif not own.startswith(HUB_TOOL_PREFIX):
        yield own
    apart = f"{server}__{name}"
    yield _made(apart, server, name)
    yield _with_suffix(_fit(apart), _suffix(server, name))
    number = 1
    while True:
        yield _with_suffix(_fit(apart), _suffix(server, name, str(number)))
        number += 1


def _made(wanted: str, server: str, name: str) -> str:
    fit = _fit(wanted)
    return fit if len(fit) <= MAX_EXPOSED_NAME else _with_suffix(fit, _suffix(server, name))


def _fit(wanted: str) -> str:
    """`wanted` made valid for every API of `MODEL_APIS`: other characters become `_`. A `_` goes in front if the first
    character is none that all APIs take, or if the name begins like a hub tool's."""
    fit = _UNFIT.sub("_", wanted)
    return fit if (fit[:1].isalpha() or fit[:1] == "_") and not fit.startswith(HUB_TOOL_PREFIX) else f"_{fit}"


def _suffix(*parts: str) -> str:
    told = "\0".join(parts).encode("utf-8", "surrogatepass")
    return "_" + hashlib.sha256(told).hexdigest()[:_DIGITS]


def _with_suffix(fit: str, suffix: str) -> str:
    return fit[: MAX_EXPOSED_NAME - len(suffix)] + suffix


def why_named_so(server: str, name: str, exposed: str, *, prefix: str) -> str:
    """The reason why the exposed name differs from the server's own, as a sentence for people; empty if it does not."""
    if name == exposed:
        return ""
    if exposed.endswith(_suffix(server, name)) and len(exposed) == MAX_EXPOSED_NAME:
        return f"Shortened to {MAX_EXPOSED_NAME} characters."
    if prefix and exposed == _fit(prefix + name):
        return "With the prefix of its server."
    if not prefix and name.startswith(HUB_TOOL_PREFIX):
        return f"Names that begin with {HUB_TOOL_PREFIX} are the hub’s own."
    if exposed == _made(f"{server}__{name}", server, name):
        return "With the name of its server: another tool had that name first, or rules hid tools when it was listed."
    return "Another tool had that name first."
