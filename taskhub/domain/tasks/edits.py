"""Calls that are approved with other arguments than their client sent.

What the client sent stays with the task. What is to run instead is a part of the approval's params (`edited`), so that
the digest of what people approve covers it; when the approval is given, it becomes the task's `edited`, which workers
send. The members of `edited` are: `arguments`, all of them; `names`, of the arguments that differ from the client's;
`changed`, their new values by name; `removed`, the names of arguments that were taken away; `by`, the person who
changed them; `digest`, of `arguments`, as in the column `arguments_digest`; and `told`, a sentence for the client's
model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Final

from taskhub.core.asking import Asking, asking
from taskhub.core.errors import Invalid
from taskhub.core.records import Actor, NewQuestion, OpenQuestion, ToolRecord
from taskhub.core.rules import Otherwise, Then
from taskhub.domain.catalogue.view import tool_by_id
from taskhub.domain.changes import change, questions, who
from taskhub.domain.questions.answer import EditOutcome
from taskhub.domain.rules.decisions import Rules, denied_why
from taskhub.domain.rules.reads import present, version
from taskhub.domain.rules.sentences import filled_in
from taskhub.domain.tasks.create import approval_question, named_values
from taskhub.domain.tasks.recheck import decide, with_edited
from taskhub.lib import jsonx
from taskhub.lib.schemas import Checked, Checker
from taskhub.store import statements
from taskhub.store.models import Task

MAX_EDITED: Final = 65_536
"""The most bytes of all arguments of an edited call, as JSON."""
TOLD_VALUE: Final = 200
"""The most characters of a value in the sentence that tells the client's model what was changed."""
TOLD: Final = 2_000
"""The most characters of that sentence."""
_CARRIED: Final = ("asked_again", "changed")
"""The params that an approval takes over from the approval that it replaces."""

_EDIT = statements.one("edit_call", EditOutcome)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call with edited arguments, as it would be approved. `before` are the arguments that the question is about."""

    before: dict[str, Any]
    arguments: dict[str, Any]
    approval: NewQuestion
    same_people: bool
    """Whether the edited call needs the approval of the same group, and of as many people, as the call before."""

    @property
    def asking(self) -> Asking:
        """What the rule that asks says of the call."""
        return asking(self.approval.params)

    @property
    def mark(self) -> str:
        """A digest of everything that a person is shown before approving it."""
        shown = [self.arguments, self.approval.params, self.approval.group, self.approval.quorum]
        return hashlib.sha256(jsonx.canonical(shown)).hexdigest()


def arguments_of(params: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """The arguments that an approval with these params is about; `sent` are those that the client sent."""
    edited = params.get("edited")
    return edited["arguments"] if isinstance(edited, dict) else sent


def differing(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """The names of the arguments that are not the same JSON, or are missing in one."""
    names = dict.fromkeys([*before, *after])
    return tuple(
        name
        for name in names
        if (name in before) is not (name in after)
        or jsonx.canonical(before.get(name)) != jsonx.canonical(after.get(name))
    )


def proposal(task_id: int, question: OpenQuestion, arguments: dict[str, Any], *, by: str) -> Proposal:
    """The approval as it would be with these arguments. Raises `Invalid` if nothing differs, if an argument differs
    that the rule does not let people edit, if the arguments are too large or do not fit the tool's schema, or if the
    rules deny or hide the call with them. An error about one argument has its name as `field`."""
    task = Task.objects.select_related("context").get(pk=task_id)
    tool = tool_by_id(task.tool_id)
    assert tool is not None  # its tasks keep a tool from being deleted
    before = arguments_of(question.params, task.arguments)
    check_readable(arguments)
    if not (names := differing(before, arguments)):
        raise Invalid("Nothing is changed. Approve the call as it is, or change an argument.")
    said = asking(question.params)
    for name in names:
        if not said.may_edit(name):
            raise Invalid(f"The rule does not let anybody edit {name[:100]}.", field=name)
    check_fit(tool, arguments)
    verdict = decide(task, tool, Rules(present(task.tenant_id)), arguments)
    if verdict.then is Then.DENY:
        raise Invalid(f"By the rules, the call with these arguments is denied: {denied_why(verdict)}")
    found = approval_question(tool, arguments, verdict)
    if found is None:
        approval = _as_before(task.tenant_id, tool, question, arguments)
    else:
        approval = _escalated(found, question)
    carried: dict[str, Any] = {name: question.params[name] for name in _CARRIED if name in question.params}
    approval = replace(approval, params={**approval.params, **carried})
    same = (approval.group, approval.quorum) == (question.group, question.quorum)
    approval = with_edited(approval, _edited(task.arguments, arguments, by))
    return Proposal(before, arguments, approval, same)


def edit_call(
    task_id: int,
    question: OpenQuestion,
    proposed: Proposal,
    *,
    votes: bool,
    actor: Actor,
    undo_seconds: float = 0.0,
) -> EditOutcome:
    """Ask about the call with the edited arguments instead. With `votes`, whoever edited them approves them too, unless
    something bars that person. Votes on the earlier question do not count."""
    response = {"verdict": "approve", "by": actor.name, "reason": actor.reason}
    return change(
        _EDIT,
        task_id,
        task=task_id,
        key=question.key,
        approval=jsonx.encode(questions([proposed.approval])).decode(),
        response=jsonx.encode(response).decode(),
        reason=actor.reason,
        user=actor.user_id,
        votes=votes,
        who=who(actor),
        undo_seconds=undo_seconds,
    )


def check_readable(arguments: dict[str, Any]) -> None:
    """Raises `Invalid` if arguments that a person typed are too large, or cannot be held by JSON on the wire or in the
    database."""
    try:
        jsonx.check(arguments)
        size = len(jsonx.encode(arguments))
    except ValueError as error:
        raise Invalid(f"The arguments cannot be read: {str(error)[:200]}.") from None
    if size > MAX_EDITED:
        raise Invalid(f"Arguments have at most {MAX_EDITED:,} bytes together, not {size:,}.")
    if jsonx.repaired(arguments) != arguments:
        raise Invalid("Arguments with U+0000 or half of a surrogate pair cannot be edited.")


def check_fit(tool: ToolRecord, arguments: dict[str, Any]) -> None:
    """Raises `Invalid` for arguments that do not fit the tool's schema, or cannot be checked against it."""
    checked = checked_fit(tool, arguments)
    if problem := checked.problem or checked.unchecked:
        raise Invalid(f"The arguments do not fit the tool’s schema: {problem}.")


def checked_fit(tool: ToolRecord, arguments: dict[str, Any]) -> Checked:
    """Whether the arguments fit the tool's schema."""
    return asyncio.run(_checked(tool, arguments))


async def _checked(tool: ToolRecord, arguments: dict[str, Any]) -> Checked:
    checker = Checker()
    try:
        return await checker.check(tool.definition.get("inputSchema"), arguments)
    finally:
        checker.close()


def _as_before(tenant_id: int, tool: ToolRecord, question: OpenQuestion, arguments: dict[str, Any]) -> NewQuestion:
    """The approval as it was asked for before the edit. It is still needed if the rules would let the call run with
    these arguments: whoever edits a call cannot avoid the others who have to approve it."""
    params = {name: value for name, value in question.params.items() if name != "edited"}
    decided = params.get("decided")
    if isinstance(decided, dict):
        asked = version(tenant_id, decided["version"])
        rule = next((one for one in asked.rules if one.name == decided["rule"]), None) if asked else None
        kept = {name: value for name, value in decided.items() if name not in ("sentence", "named")}
        if rule is not None:
            schema = tool.definition.get("inputSchema")
            if rule.sentence:
                kept["sentence"] = filled_in(rule.sentence, arguments, schema)
            if named := named_values(rule, arguments, schema):
                kept["named"] = named
        params["decided"] = kept
    return NewQuestion(
        key="approval",
        kind=question.kind,
        params=params,
        audience=question.audience,
        group=question.group,
        quorum=question.quorum,
    )


def _escalated(approval: NewQuestion, question: OpenQuestion) -> NewQuestion:
    """The approval, which goes to the group of `question` if the same rule asks and its first group did not decide in
    time. In any other case, `approval` as it is."""
    before, now = question.params.get("decided") or {}, approval.params["decided"]
    asked = (before.get("rule"), before.get("version"), before.get("escalated_from"))
    if asked != (now["rule"], now["version"], approval.group):
        return approval
    decided = {name: value for name, value in now.items() if name != "escalate_to"}
    decided |= {"otherwise": str(Otherwise.DENY), "escalated_from": approval.group}
    return replace(approval, group=question.group, params={**approval.params, "decided": decided})


def _edited(sent: dict[str, Any], arguments: dict[str, Any], by: str) -> dict[str, Any] | None:
    """The record of edited arguments for a question and a task; `None` if they are those that the client sent."""
    check_readable(arguments)
    if not (names := differing(sent, arguments)):
        return None
    changed = {name: arguments[name] for name in names if name in arguments}
    removed = [name for name in names if name not in arguments]
    return {
        "arguments": arguments,
        "names": list(names),
        "changed": changed,
        "removed": removed,
        "by": by,
        "digest": hashlib.sha256(jsonx.canonical(arguments)).hexdigest(),
        "told": _told(changed, removed, by),
    }


def _told(changed: dict[str, Any], removed: list[str], by: str) -> str:
    parts = [f"{_name(name)} = {_cut(json.dumps(value, ensure_ascii=False))}" for name, value in changed.items()]
    parts += [f"{_name(name)} was removed" for name in removed]
    text = f"An approver ({by}) changed arguments of this call before approving it: {'; '.join(parts)}."
    return text if len(text) <= TOLD else f"{text[: TOLD - 1]}…"


def _name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= TOLD_VALUE else f"{text[: TOLD_VALUE - 1]}…"
