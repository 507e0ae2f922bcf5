"""Rulings: whether a tool ran in a run that was lost, and with which result its task then ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.domain.foreign import object_of
from taskhub.lib import jsonx
from taskhub.lib.schemas import Checked, Checker
from taskhub.store import statements

MAX_RESULT: Final = 65_536
"""The most bytes of a result that a person gives."""
SHOWN: Final = 1_000
"""The most tasks waiting for a ruling that are listed at once."""
RULING: Final = "taskhub/ruling"
"""The key in a result's `_meta` for results that a ruling made."""


@dataclass(frozen=True, slots=True)
class LostCall:
    """The call of a lost run. `definition`: the tool's present definition. `companion`: the tool that is asked whether
    the call ran. `checked`: whether the companion is asked. `checked_at`: when the companion answered, or the hub gave
    up for the reason `check_problem`; until then, `next_at` is when the companion is asked next."""

    tool_name: str
    definition: dict[str, Any]
    companion: str = ""
    checked: bool = False
    checked_at: datetime | None = None
    next_at: datetime | None = None
    tries: int = 0
    check_arguments: str | None = None
    check_result: str | None = None
    check_problem: str = ""

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of the tool's structured content; `None` if the tool has none."""
        found = self.definition.get("outputSchema")
        return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Unruled:
    """A task whose outcome is unknown, and waits for a ruling."""

    public_id: str
    tool_name: str
    server: str
    client: str
    opened_at: datetime
    due_at: datetime | None
    message: str


_UNRULED = statements.many("unruled", Unruled)
_LOST = statements.maybe("lost_call", LostCall, convert={"definition": object_of})


def lost_call(question_id: int) -> LostCall:
    """The call that a question of the kind `outcome` is about."""
    found = _LOST(question=question_id)
    assert found is not None  # nobody asks with the id of another question, and questions are not deleted
    return found


def unruled(tenant_id: int) -> list[Unruled]:
    """The tasks of a tenant that wait for a ruling, the longest-waiting first."""
    return _UNRULED(tenant=tenant_id, most=SHOWN)


def ruled_result(call: LostCall, *, by: str, reason: str, text: str = "", json_text: str = "") -> dict[str, Any]:
    """The result of a call that ran according to a ruling by `by`. Its content is the tool's answer, as `text` or as
    JSON; with neither, it says that the answer is not known, and is an error if the tool has an output schema. Raises
    `Invalid`, which names the field, for a result that the tool cannot have given."""
    if len(text.encode()) > MAX_RESULT or len(json_text.encode()) > MAX_RESULT:
        raise Invalid(f"A result has at most {MAX_RESULT:,} bytes.", field="result")
    result: dict[str, Any] = {"content": [{"type": "text", "text": text or json_text}]}
    schema = call.output_schema
    if json_text:
        result["structuredContent"] = _structured(json_text, schema)
    elif text and schema is not None:
        raise Invalid("This tool answers with JSON; its output schema says which.", field="result")
    elif not text:
        why = reason if reason.endswith((".", "!", "?")) else f"{reason}."
        result["content"][0]["text"] = (
            f"{call.tool_name} has run, as {by} ruled: {why} Its answer was lost; do not run it again for that."
        )
        if schema is not None:
            # Clients refuse a result that lacks the structured content which the schema promises, unless it is an
            # error, and show none of its text.
            result["isError"] = True
            result["content"][0]["text"] += " It is marked as an error only because an output schema wants the answer."
    result["_meta"] = {RULING: {"verdict": "ran", "by": by, "reason": reason}}
    return result


def _structured(text: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    try:
        value = jsonx.decode(text.encode())
    except jsonx.JsonError as error:
        raise Invalid(f"This is no JSON: {str(error).rstrip('.')}.", field="result") from None
    if not isinstance(value, dict):
        raise Invalid("A structured result is a JSON object.", field="result")
    if jsonx.has_nul(value):
        raise Invalid("A result cannot hold the character U+0000.", field="result")
    checked = Checked() if schema is None else asyncio.run(_checked(schema, value))
    if checked.problem:
        raise Invalid(f"This does not fit the tool’s output schema: {checked.problem}.", field="result")
    return value


async def _checked(schema: dict[str, Any], value: dict[str, Any]) -> Checked:
    checker = Checker()
    try:
        return await checker.check(schema, value)
    finally:
        checker.close()
