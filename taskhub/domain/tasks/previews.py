"""Runs of previews: calls that show people what another call would do, and what follows from their answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from taskhub.core.asking import asking
from taskhub.core.policy import inputs_of
from taskhub.core.records import Actor, Claim
from taskhub.core.rules import Preview
from taskhub.core.states import Audience
from taskhub.domain.changes import change, who
from taskhub.domain.foreign import object_of
from taskhub.domain.hints.announce import announce
from taskhub.domain.questions.previews import Answer
from taskhub.lib import jsonx
from taskhub.lib.schemas import surely_fits
from taskhub.store import statements

PREVIEW_SECONDS: Final = 30.0
"""Seconds that a preview may take, with the time until its server takes the call."""
TAKEN_SECONDS: Final = 45.0
"""Seconds after which another worker runs a preview that a worker had taken."""
MAX_TRIES: Final = 5
"""The most tries of a preview whose server cannot be reached, or whose worker is lost, before it counts as failed."""


@dataclass(frozen=True, slots=True)
class _Due:
    """A preview that is to be run. `tool_id` is 0 if the server has no such tool."""

    question_id: int
    key: str
    open: bool
    params: str
    task_id: int
    public_id: str
    tenant_id: int
    context_id: int
    arguments: str
    revision: str
    client_capabilities: str
    server_id: int
    server_name: str
    tool_id: int
    name: str
    may: bool
    offered: bool
    read_only: bool
    enabled: bool
    definition: str
    tries: int
    problem: str
    digest: str


@dataclass(frozen=True, slots=True)
class PreviewCall:
    """A preview to run for this question; `claim` is the call to make. `problem` says why it must not be made; empty if
    it may. `tries` counts this try too. `digest`: of the preview that people approved, in hex; empty if they have
    approved none."""

    question_id: int
    claim: Claim
    problem: str
    tries: int
    digest: str


class Compared(StrEnum):
    """The outcome of a comparison right before the tool runs; the SQL function `compare_preview` says what each one
    means."""

    SAME = "same"
    CHANGED = "changed"
    LOST = "lost"


_TAKE = statements.many("take_previews", _Due)
_APPROVED = statements.maybe("approved_preview", _Due)
_PUT_OFF = statements.rowcount("put_off_preview")
_END = statements.one("end_preview", bool)
_COMPARE = statements.one("compare_preview", Compared)


def take_previews(worker: str, *, most: int) -> list[PreviewCall]:
    """Take previews that are due, for this worker."""
    return [_call(due) for due in change(_TAKE, worker=worker, worker_seconds=TAKEN_SECONDS, most=most)]


def approved_preview(task_id: int) -> PreviewCall | None:
    """The preview that people approved with the task's call, to be run again; `None` if they were shown none."""
    found = _APPROVED(task=task_id)
    return None if found is None else _call(found)


def put_off(call: PreviewCall, problem: str) -> None:
    """Try the preview again later: its server could not be reached."""
    _PUT_OFF(
        question=call.question_id,
        tries=call.tries,
        seconds=3.0 * 2.0 ** min(call.tries - 1, 4),
        problem=jsonx.repaired(problem)[:1_000],
    )
    announce(call.claim.task_id)


def end_preview(call: PreviewCall, answer: Answer, *, actor: Actor) -> None:
    """Store the outcome of the preview, for the people who are asked."""
    change(_END, call.claim.task_id, question=call.question_id, tries=call.tries, **_stored(call, answer, actor))


def compare_preview(call: PreviewCall, claim: Claim, answer: Answer, *, actor: Actor) -> Compared:
    """Compare what the preview shows now with what people approved. If they differ, the claim is over, and people are
    asked again."""
    return change(
        _COMPARE,
        claim.task_id,
        task=claim.task_id,
        epoch=claim.epoch,
        question=call.question_id,
        **_stored(call, answer, actor),
    )


def _stored(call: PreviewCall, answer: Answer, actor: Actor) -> dict[str, object]:
    return {
        "tool": call.claim.tool_name[:160],
        "arguments": jsonx.encode(jsonx.repaired(call.claim.arguments)).decode(),
        "text": answer.text,
        "left_out": answer.left_out,
        "is_error": answer.is_error,
        "problem": answer.problem,
        "digest": answer.digest,
        "who": who(actor),
    }


def _call(due: _Due) -> PreviewCall:
    preview = asking(json.loads(due.params)).preview
    assert preview is not None  # only such questions have one
    definition = object_of(due.definition)
    arguments, problem = _arguments(preview, json.loads(due.arguments), definition)
    name = preview.tool or due.name
    if not due.open and not due.digest:
        problem = "The question was closed before."
    elif due.tries > MAX_TRIES:
        problem = due.problem or "The workers that ran it were lost."
    elif not due.may:
        problem = "The client may not call any more."
    elif not due.tool_id or not due.offered:
        problem = f"{name} is not offered by the server."
    elif not due.enabled:
        problem = f"{name} is turned off."
    elif preview.tool and not due.read_only:
        problem = f"{name} does not say that it only reads."
    claim = Claim(
        task_id=due.task_id,
        public_id=due.public_id,
        epoch=0,
        tenant_id=due.tenant_id,
        context_id=due.context_id,
        server_id=due.server_id,
        server_name=due.server_name,
        tool_id=due.tool_id,
        tool_name=name,
        arguments=arguments,
        answers=None,
        upstream_state=None,
        client_capabilities=json.loads(due.client_capabilities),
        trace={},
        question_audience=Audience.EITHER,  # so that whatever the preview asks comes to the hub, which refuses it
        run_seconds=int(PREVIEW_SECONDS),
        revision=due.revision,
    )
    return PreviewCall(due.question_id, claim, problem, due.tries, due.digest)


def _arguments(preview: Preview, given: dict[str, Any], definition: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments of the preview, and why the preview must not be called with them; empty if it may be. A tool that
    does not know an argument such as `dry_run` may ignore it, and do its work before anybody has approved that: so its
    schema has to name each argument, and the value has to fit."""
    known = inputs_of(definition)
    if preview.tool:
        return {name: value for name, value in given.items() if name in known}, ""
    wanted: dict[str, Any] = preview.to_json()["arguments"]
    for name, value in wanted.items():
        if name not in known:
            return given | wanted, f"The tool has no argument {name[:60]}, so a preview would do its work."
        tables = {word: definition["inputSchema"].get(word, {}) for word in ("$defs", "definitions")}
        if not isinstance(known[name], dict) or not surely_fits(tables | known[name], value):
            return given | wanted, f"The value of {name[:60]} does not surely fit the tool's schema."
    return given | wanted, ""
