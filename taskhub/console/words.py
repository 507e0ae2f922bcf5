"""Describes in words what a client's protocol revision and declarations mean for its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from taskhub.console.questions import of_clients
from taskhub.core.names import TASKS_EXTENSION
from taskhub.core.records import QuestionKind
from taskhub.core.versions import DECIDED_ONLY, Proposal, Version, is_stateless
from taskhub.domain.clients.dialects import ClientDialect
from taskhub.domain.clients.patience import CERTAIN, CallerSettings, LearnedRow, program_of
from taskhub.domain.questions.kinds import can_answer

WITH_TASKS: Final = Version.MCP_2025_11_25
WITHOUT_TASKS: Final = (Version.MCP_2025_06_18, Version.MCP_2025_03_26)
PROPOSALS: Final[dict[str, str]] = {
    Proposal.SEP_1686: "SEP-1686, by its key on a session",
    Proposal.SEP_2557: "SEP-2557, on /mcp/sep-2557",
    DECIDED_ONLY: "/api/v1/approvals, for calls that it makes itself",
}


@dataclass(frozen=True, slots=True)
class Described:
    """What one program of a client speaks, declares and does not support, as the client's page shows it."""

    program: str
    speaks: str
    declares: tuple[str, ...]
    never: tuple[str, ...]
    dialect: ClientDialect


def described(dialect: ClientDialect) -> Described:
    """Describe what the program speaks, declares and does not support."""
    answers = {words.declared: _answers(dialect, kind, params) for kind, params, words in of_clients()}
    declares = tuple(name for name, does in answers.items() if does)
    if is_stateless(dialect.revision) and _extension(dialect.capabilities):
        declares = ("tasks extension", *declares)
    if _hosts(dialect):
        declares = (*declares, "tasks of its own")
    never = [*_about_tasks(dialect), *(words.instead for _, _, words in of_clients() if not answers[words.declared])]
    if dialect.revision == DECIDED_ONLY:
        never = []  # its questions are for people only
    return Described(
        program=dialect.program,
        speaks=PROPOSALS.get(dialect.revision, f"MCP {dialect.revision}"),
        declares=declares,
        never=tuple(never),
        dialect=dialect,
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long the calls of one program of a client wait and why, and whether its tool list has the hub's own tools
    (`listed`), as the client's page shows it."""

    program: str
    waits: str
    listed: bool


def waiting(
    dialects: Sequence[ClientDialect], settings: CallerSettings, learned: Sequence[LearnedRow]
) -> tuple[Waiting, ...]:
    """How long the calls of each program of a client wait, latest program first; one general row if no program is
    known."""
    dialects = [dialect for dialect in dialects if dialect.revision != DECIDED_ONLY]
    if not dialects:
        return (Waiting("Any program without tasks", _patience(settings, {}, learned), settings.tools),)
    found: dict[tuple[str, bool], Waiting] = {}
    for dialect in dialects:
        name, plain = dialect.program or "Unnamed program", makes_plain_calls(dialect)
        waits = _patience(settings, dialect.client_info, learned) if plain else "no limit: it declares tasks"
        found.setdefault(
            (program_of(dialect.client_info), plain), Waiting(name, waits, listed=plain and settings.tools)
        )
    for row in learned:  # programs that made no call lately
        waits = _patience(settings, {"name": row.program}, learned)
        found.setdefault((row.program, True), Waiting(row.program, waits, listed=settings.tools))
    return tuple(found.values())


def makes_plain_calls(dialect: ClientDialect) -> bool:
    """Whether the program declares no support for tasks, so that its calls are plain calls."""
    if dialect.revision in PROPOSALS:
        return False
    if dialect.revision == WITH_TASKS:
        return not isinstance(dialect.capabilities.get("tasks"), dict)
    return not (is_stateless(dialect.revision) and _extension(dialect.capabilities))


def _patience(settings: CallerSettings, client_info: dict[str, Any], learned: Sequence[LearnedRow]) -> str:
    patience = settings.patience(client_info)
    row = next((row for row in learned if row.program == program_of(client_info)), None)
    left = "" if row is None else f"a caller left after {_seconds(row.left_after_ms / 1_000)}"
    why = {
        "set": "set here",
        "learned": f"learned: {left}",
        "known": "known for this program",
        "default": "the default",
    }[patience.why]
    if row is not None and row.leaves < CERTAIN and patience.why != "set":
        why += f"; {left}, which counts the second time"
    waits = "as long as it takes" if patience.seconds is None else _seconds(patience.seconds)
    return f"{waits}, {why}"


def _seconds(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0") + " s"


def _answers(dialect: ClientDialect, kind: QuestionKind, params: dict[str, Any]) -> bool:
    # Revisions before 2025-06-18 have no forms, and those before 2025-11-25 no url mode, whatever was declared.
    if kind is QuestionKind.ELICITATION and dialect.revision == Version.MCP_2025_03_26:
        return False
    if params.get("mode") == "url" and dialect.revision in WITHOUT_TASKS:
        return False
    return can_answer(dialect.capabilities, kind, params)


def _about_tasks(dialect: ClientDialect) -> list[str]:
    if is_stateless(dialect.revision) and not _extension(dialect.capabilities):
        return [
            "Task handles: the tasks extension is not declared. Its calls wait for their results, and tools in"
            " mode “required” are not listed to it and answer its calls with -32021."
        ]
    if dialect.revision in WITHOUT_TASKS:
        return [
            "Task handles: its version has no tasks. Its calls wait for their results, and tools in mode “required”"
            " are not listed to it and answer its calls with -32601."
        ]
    never = []
    if dialect.revision == WITH_TASKS and not isinstance(dialect.capabilities.get("tasks"), dict):
        never.append("Tools in mode “required”: tasks are not declared, so they are not listed to it.")
    if dialect.revision == WITH_TASKS and not _hosts(dialect):
        never.append("Questions as tasks: it has to answer while connected, or people answer.")
    return never


def _extension(capabilities: dict[str, Any]) -> bool:
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


def _hosts(dialect: ClientDialect) -> bool:
    tasks = dialect.capabilities.get("tasks")
    return dialect.revision == WITH_TASKS and isinstance(tasks, dict) and bool(tasks.get("requests"))
