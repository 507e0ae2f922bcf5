"""Checks: if it is not known whether a tool ran, a worker asks the tool's companion, which is a read-only tool
(`Policy.companion`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from taskhub.core.policy import companion_misfit
from taskhub.core.records import Actor, OpenQuestion
from taskhub.core.states import Audience, Door, QuestionKind
from taskhub.domain.changes import change, who
from taskhub.domain.foreign import object_of
from taskhub.domain.hints.announce import announce
from taskhub.domain.questions.answer import rule_outcome
from taskhub.domain.questions.rulings import LostCall, ruled_result
from taskhub.lib import jsonx
from taskhub.store import statements

CHECK_SECONDS: Final = 60.0
"""The most seconds that a companion may take."""
TAKEN_SECONDS: Final = 120.0
"""Seconds after which another worker takes a check that a worker had taken: longer than a worker waits for a connection
and an answer."""
LONGEST_PAUSE: Final = 60.0
"""The most seconds between two tries of a check whose server cannot be reached."""
MAX_KEPT: Final = 65_536
"""The most bytes that are kept of a companion's answer."""


@dataclass(frozen=True, slots=True)
class _Due:
    """A check that this worker has taken, as the database has it. `fits`: whether the companion is offered and
    only reads."""

    question_id: int
    tries: int
    key: str
    open: bool
    task_id: int
    public_id: str
    tenant_id: int
    context_id: int
    arguments: str
    companion: str
    server_id: int
    server_name: str
    companion_id: int
    exposed_name: str
    fits: bool
    companion_definition: str
    tool_name: str
    definition: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check that this worker has taken: it is to call the companion with `arguments`. The companion's server names it
    `name`, clients know it as `exposed_name`. `problem` says why it must not be called; empty if it may. `call` is the
    call whose outcome is unknown."""

    question_id: int
    tries: int
    key: str
    task_id: int
    public_id: str
    tenant_id: int
    context_id: int
    server_id: int
    server_name: str
    companion_id: int
    name: str
    exposed_name: str
    arguments: dict[str, Any]
    companion: dict[str, Any]
    call: LostCall
    problem: str


_TAKE = statements.many("take_checks", _Due)
_PUT_OFF = statements.rowcount("put_off_check")
_END = statements.one("end_check", bool)


def take_checks(*, most: int = 20) -> list[Check]:
    """Take checks that are due, for this worker."""
    return [_check(due) for due in change(_TAKE, worker_seconds=TAKEN_SECONDS, most=most)]


def _check(due: _Due) -> Check:
    companion = object_of(due.companion)
    problem = ""
    if not due.open:
        problem = "The question was closed before."
    elif not companion:
        problem = "The policy names no companion any more."
    elif not due.fits:
        problem = f"{due.exposed_name} is not offered any more, or does not say any more that it only reads."
    elif misfit := companion_misfit(companion, object_of(due.companion_definition)):
        problem = f"{due.exposed_name} has changed: it {misfit}."
    return Check(
        question_id=due.question_id,
        tries=due.tries,
        key=due.key,
        task_id=due.task_id,
        public_id=due.public_id,
        tenant_id=due.tenant_id,
        context_id=due.context_id,
        server_id=due.server_id,
        server_name=due.server_name,
        companion_id=due.companion_id,
        name=str(companion.get("tool", "")),
        exposed_name=due.exposed_name,
        arguments=follow(companion, json.loads(due.arguments)),
        companion=companion,
        call=LostCall(due.tool_name, object_of(due.definition)),
        problem=problem,
    )


def follow(companion: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the companion, made from those of the call. An argument whose value the call did not have is
    left out."""
    found = {}
    for name, source in companion.get("arguments", {}).items():
        if "value" in source:
            found[name] = source["value"]
        elif source["argument"] in arguments:
            found[name] = arguments[source["argument"]]
    return found


def put_off(check: Check, problem: str) -> None:
    """Try the check again later: its server could not be reached, or the connection was lost again."""
    pause = min(LONGEST_PAUSE, 5.0 * 2.0 ** min(check.tries, 10))
    _PUT_OFF(question=check.question_id, tries=check.tries, seconds=pause, problem=jsonx.repaired(problem)[:1_000])
    announce(check.task_id)


def end_check(check: Check, *, result: dict[str, Any] | None = None, problem: str = "", actor: Actor) -> None:
    """End the check with what the companion answered, or with the reason why it did not. If the policy says what the
    answer means, that meaning is the ruling, and people are not asked any more."""
    kept = None if result is None else jsonx.encode(jsonx.repaired(result)).decode()
    if kept is not None and len(kept.encode()) > MAX_KEPT:
        kept, problem = None, f"Its answer has more than {MAX_KEPT:,} bytes and was not kept."
    with transaction.atomic():
        done = change(
            _END,
            check.task_id,
            question=check.question_id,
            tries=check.tries,
            tool=check.exposed_name,
            arguments=jsonx.encode(jsonx.repaired(check.arguments)).decode(),
            result=kept,
            problem=jsonx.repaired(problem)[:1_000],
            who=who(actor),
        )
        if done and result is not None and (ruling := _meaning(check.companion, result)) is not None:
            _rule(check, *ruling)


def _meaning(companion: dict[str, Any], result: dict[str, Any]) -> tuple[bool, str] | None:
    """Whether the tool ran, according to the answer of its companion, and why; `None` if a person has to decide."""
    member = companion.get("field")
    if not member or result.get("isError") is True:
        return None
    answer = _object(result)
    if member not in answer:
        return None
    for meaning, ran in (("ran", True), ("unrun", False)):
        if meaning in companion and _same(companion[meaning], answer[member]):
            return ran, f"{member} is {json.dumps(answer[member], ensure_ascii=False)}"
    return None


def _same(wanted: Any, found: Any) -> bool:
    """Equal as JSON: `true` is not `1`."""
    return isinstance(wanted, bool) is isinstance(found, bool) and bool(wanted == found)


def _object(result: dict[str, Any]) -> dict[str, Any]:
    """The answer of the companion as an object: its structured content; if it has none, the JSON in its only text.
    Empty if there is no object."""
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return structured
    blocks = result.get("content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    if len(texts) != 1 or not isinstance(texts[0], str):
        return {}
    try:
        found = jsonx.decode(texts[0].encode("utf-8", "replace"))
    except jsonx.JsonError:
        return {}
    return found if isinstance(found, dict) else {}


def _rule(check: Check, ran: bool, why: str) -> None:
    actor = Actor(name=check.exposed_name, door=Door.POLICY, reason=why)
    question = OpenQuestion(check.key, QuestionKind.OUTCOME, {}, Audience.OPERATOR, "", 1, 0)
    result = ruled_result(check.call, by=check.exposed_name, reason=why) if ran else None
    rule_outcome(check.task_id, question, ran=ran, result=result, actor=actor)
