"""The policy that an operator sets for a tool: a record whose fields have the names of the tool's columns.

`ToolRecord` and `domain.catalogue.reads.ToolRow` are subclasses of `Policy`, so a new field is added here, in the model
(with a migration), and in the console's form and template.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, fields
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.states import Audience, TaskMode
from taskhub.lib import jsonx

CALLER: Final = "caller"
"""A value of `question_audience` that is no `Audience`: the client alone answers, and a question that its program
cannot answer is refused."""
MAX_CONDITIONS: Final = 20
MAX_QUORUM: Final = 20
MAX_GROUP: Final = 64
MAX_ATTEMPTS: Final = 20
MAX_RUN_SECONDS: Final = 86_400
MAX_JOIN_SECONDS: Final = 86_400
MAX_RETRY_SECONDS: Final = 300
MAX_RETRY_ERRORS: Final = 20
RETRIED: Final = ("connect", "timeout")
"""The errors, besides JSON-RPC codes, for which a policy can demand another try. `connect`: the server could not be
reached. `timeout`: the tool ran for longer than its policy allows."""


def answerers(question_audience: str | None) -> tuple[Audience | None, bool]:
    """The audience of a tool's questions by its policy, `None` if the policy has none; and whether a question that the
    client cannot answer is refused."""
    if question_audience == CALLER:
        return Audience.CLIENT, True
    return (Audience(question_audience) if question_audience else None), False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of a tool. Where a field is `None`, the tool's own definition decides."""

    enabled: bool = True
    policy_mode: str | None = None
    policy_at_least_once: bool | None = None
    question_audience: str | None = None
    """Who answers the tool's questions: an `Audience` or `CALLER`."""
    people_after_program: bool = False
    """Whether people are asked a question that a client's program declined by itself."""
    companion: dict[str, Any] = field(default_factory=dict)
    """The companion: a read-only tool of the same server that is asked whether this tool ran, when that is unknown.
    `tool` is its name. `arguments` has, for each of its arguments, `{"argument": name}` (an argument of this tool) or
    `{"value": …}`. If `field` names a member of its answer, and `ran` or `unrun` is the value of that member, the hub
    rules without people."""
    retry_on: list[str] = field(default_factory=list)
    """The errors after which a call is tried again: words of `RETRIED`, and JSON-RPC codes as text."""
    retry_seconds: int = 1
    """Seconds before the second try. The pause doubles with each further try. To each pause, chance adds or subtracts
    up to half."""
    max_attempts: int = 3
    run_seconds: int = 900
    join_seconds: int = 300

    def mode_for(self, hint: str | None) -> TaskMode:
        """The mode in force for a tool whose definition asks for the mode `hint`."""
        return TaskMode(self.policy_mode or hint or TaskMode.AUTO)

    def repeats(self, *, harmless: bool) -> bool:
        """Whether a call is run again after its worker was lost. `harmless`: whether the tool declares that this does
        no harm."""
        return harmless if self.policy_at_least_once is None else self.policy_at_least_once


_CODE: Final = re.compile(r"-?[1-9][0-9]{0,9}")
_COMPANION: Final = frozenset({"tool", "arguments", "field", "ran", "unrun"})
POLICY_FIELDS: Final = tuple(part.name for part in fields(Policy))


def values_of(tool: Any) -> dict[str, Any]:
    """The policy's fields of `tool`, a `Policy` or the model `Tool`, by name."""
    return {name: getattr(tool, name) for name in POLICY_FIELDS}


def mark_of(tool: Any) -> str:
    """A short digest of the policy of `tool`, a `Policy` or the model `Tool`. A form sends it back, so that two people
    who edit at once do not overwrite each other's changes unnoticed."""
    return hashlib.sha256(json.dumps(list(values_of(tool).values()), sort_keys=True).encode()).hexdigest()[:16]


def check_policy(policy: Policy) -> None:
    """Raise `Invalid`, with the name of the field in its data, if a value is not allowed."""
    if policy.policy_mode is not None and policy.policy_mode not in set(TaskMode):
        raise Invalid("The mode is auto, always, never or required.", field="policy_mode")
    if policy.question_audience not in {None, CALLER, *Audience}:
        raise Invalid("Questions go to client, operator, either or caller.", field="question_audience")
    for name, value, low, high in (
        ("max_attempts", policy.max_attempts, 1, MAX_ATTEMPTS),
        ("retry_seconds", policy.retry_seconds, 1, MAX_RETRY_SECONDS),
        ("run_seconds", policy.run_seconds, 1, MAX_RUN_SECONDS),
        ("join_seconds", policy.join_seconds, 0, MAX_JOIN_SECONDS),
    ):
        if isinstance(value, bool) or not low <= value <= high:
            raise Invalid(f"Give a whole number from {low} to {high:,}, not {value}.", field=name)
    _check_companion(policy.companion)
    if len(policy.retry_on) > MAX_RETRY_ERRORS:
        raise Invalid(f"At most {MAX_RETRY_ERRORS} errors.", field="retry_on")
    for error in policy.retry_on:
        if error not in RETRIED and not _CODE.fullmatch(error):
            words = ", ".join(RETRIED)
            raise Invalid(f"Name {words}, or codes of JSON-RPC such as -32001, not {error[:20]!r}.", field="retry_on")


def _check_companion(companion: dict[str, Any]) -> None:
    if not companion:
        return
    tool, arguments = companion.get("tool"), companion.get("arguments", {})
    if not isinstance(tool, str) or not 0 < len(tool) <= 128 or set(companion) - _COMPANION:
        raise Invalid("A companion has a tool, arguments, and what its answer means.", field="companion_tool")
    if not isinstance(arguments, dict) or len(arguments) > MAX_CONDITIONS:
        raise Invalid(f"At most {MAX_CONDITIONS} arguments.", field="companion_arguments")
    for name, source in arguments.items():
        if not name or len(name) > 128 or not isinstance(source, dict) or set(source) not in ({"argument"}, {"value"}):
            raise Invalid(
                "An argument follows from an argument of this tool, or is a value.", field="companion_arguments"
            )
        if not isinstance(source.get("argument", ""), str) or len(jsonx.encode(source)) > 1_000:
            raise Invalid("An argument has at most 1,000 characters.", field="companion_arguments")
    meanings = [companion[name] for name in ("ran", "unrun") if name in companion]
    named = companion.get("field", "")
    if not isinstance(named, str) or len(named) > 128 or len(jsonx.encode(meanings)) > 1_000:
        raise Invalid("Name a member of the answer, with up to 128 characters.", field="companion_field")
    if bool(named) != bool(meanings):
        raise Invalid(
            "To rule, it needs a member of the answer and a value that means something.", field="companion_field"
        )
    if len(meanings) == 2 and meanings[0] == meanings[1]:
        raise Invalid("One value cannot mean both.", field="companion_unrun")
    if jsonx.has_nul(companion):
        raise Invalid("A companion cannot hold the character U+0000.", field="companion_arguments")


def companion_misfit(companion: dict[str, Any], definition: dict[str, Any]) -> str:
    """Why the tool with this definition cannot be called as the policy's `companion`, as the words after the tool's
    name; empty if it can. A schema without properties takes any arguments."""
    arguments, takes = companion.get("arguments", {}), inputs_of(definition)
    unknown = next((name for name in arguments if takes and name not in takes), None)
    if unknown is not None:
        return f"has no argument {unknown[:60]}"
    schema = definition.get("inputSchema")
    needs = schema.get("required") if isinstance(schema, dict) else None
    missing = next((name for name in needs if name not in arguments), None) if isinstance(needs, list) else None
    return "" if missing is None else f"needs {str(missing)[:60]}"


def inputs_of(definition: dict[str, Any]) -> dict[str, Any]:
    """The properties of the tool's `inputSchema`; empty if it names none."""
    schema = definition.get("inputSchema")
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}
