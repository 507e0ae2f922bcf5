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
"""Where consoles are told what changed: the socket's path."""

QUEUE: Final = "taskhub"
"""The one procrastinate queue. Fixed and short: procrastinate builds channel names from it."""

WAKE_JOB: Final = "taskhub.run"
"""The procrastinate task that wakes the workers. Its name never changes across releases."""

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""In the `_meta` of every request since 2026-07-28: its presence tells that era from the one before."""

META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
"""In the `_meta` of results of that era: which server made them."""

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
IDEMPOTENCY_KEY: Final = "io.taskhub/idempotencyKey"
TASK_HEADER: Final = "TaskHub-Task"
"""The header of an answer whose caller is kept waiting for a task: the task's id."""
PROGRESS: Final = "io.taskhub/progress"
"""In the `_meta` of a task that reports numbers: `{"progress": 3, "total": 5}`; no `total` when unknown."""
TOOL_USE: Final = "claudecode/toolUseId"
"""In the `_meta` of a call by Claude Code: the id that the call has in its transcripts."""
MODE_HINT: Final = "taskhub/task"
"""A tool's own `_meta` hint: one of `core.states.TaskMode`."""

HUB_TOOL_PREFIX: Final = "taskhub_"
"""What the names of the hub's own tools begin with, and no other tool's on our wire."""

SCOPES: Final = ("tasks:call", "tasks:read", "tasks:answer", "tasks:cancel")

OAUTH_ISSUER: Final = "taskhub/oauth"
"""The issuer of contexts that come from our authorization server. A name and no address, so that clients keep their
tasks when TaskHub moves to another address."""

MAX_URI: Final = 1_024
"""Characters of a resource's uri or a template that are kept."""

MAX_EXPOSED_NAME: Final = 60
"""Characters of a tool's or a prompt's name on our wire. The APIs of models take 64, and some programs put what they
call the hub before it."""

_DIGITS: Final = 8
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class NameRule:
    """The names of tools that the API of a model takes."""

    api: str
    pattern: re.Pattern[str]
    takes: str
    """The pattern in words."""


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
    """The rules that a tool's name breaks."""
    return tuple(rule for rule in MODEL_APIS if rule.pattern.fullmatch(name) is None)


def exposed_name(server: str, name: str, *, prefix: str, taken: Container[str]) -> str:
    """The name that clients are to see of a server's tool or prompt, none of those `taken`.

    It is its own name unless that is too long, taken or the hub's, or its server has a prefix. A name that is made
    instead is the same each time, good for every API of `MODEL_APIS`, and says whose it is: `SERVER__tool`."""
    return next(found for found in _candidates(server, name, prefix) if found not in taken)


def _candidates(server: str, name: str, prefix: str) -> Iterator[str]:
    own = prefix + name
    if prefix or len(own) > MAX_EXPOSED_NAME:
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
    """With characters and a beginning that every API takes."""
    fit = _UNFIT.sub("_", wanted)
    return fit if (fit[:1].isalpha() or fit[:1] == "_") and not fit.startswith(HUB_TOOL_PREFIX) else f"_{fit}"


def _suffix(*parts: str) -> str:
    told = "\0".join(parts).encode("utf-8", "surrogatepass")
    return "_" + hashlib.sha256(told).hexdigest()[:_DIGITS]


def _with_suffix(fit: str, suffix: str) -> str:
    return fit[: MAX_EXPOSED_NAME - len(suffix)] + suffix


def why_named_so(server: str, name: str, exposed: str, *, prefix: str) -> str:
    """Why clients see another name than the server's own, as text for people; empty where they do not."""
    if name == exposed:
        return ""
    if exposed.endswith(_suffix(server, name)) and len(exposed) == MAX_EXPOSED_NAME:
        return f"Shortened to {MAX_EXPOSED_NAME} characters."
    if prefix and exposed == _fit(prefix + name):
        return "With the prefix of its server."
    if not prefix and name.startswith(HUB_TOOL_PREFIX):
        return f"Names that begin with {HUB_TOOL_PREFIX} are the hub’s own."
    return "Another tool had that name first."
