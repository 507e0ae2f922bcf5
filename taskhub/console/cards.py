"""What the card of a question shows, apart from its form: parts of the context of its template."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from taskhub.console import content, story
from taskhub.console.changes import changes, line_changes, of_arguments
from taskhub.console.requests import ConsoleRequest
from taskhub.console.templatetags.console import past, state_word
from taskhub.control.factors import has_confirmed, own_factor
from taskhub.core.states import TERMINAL, QuestionKind, QuestionState
from taskhub.domain.questions import inbox as queries
from taskhub.domain.questions import previews
from taskhub.domain.questions.inbox import InboxItem, Obstacle, Vote
from taskhub.domain.questions.reads import approved_call, approvers_left, edit_reason, replaced_by
from taskhub.domain.questions.rulings import lost_call
from taskhub.domain.tasks import recheck
from taskhub.domain.tasks.detail import TaskDetail, waiting_task
from taskhub.domain.tasks.edits import Proposal


def votes(item: InboxItem) -> tuple[Vote, ...]:
    """The decisions on the question; without a query where there are none."""
    return queries.votes(item.id) if item.last_actor else ()


def factor(request: ConsoleRequest, item: InboxItem, proposed: Proposal | None = None) -> dict[str, Any]:
    """The template context of an approval, perhaps of the call with edited arguments, that needs a second factor of the
    person: `factor` is `missing` where they have none, `asked` where they have to type a code, else `confirmed`."""
    needed = item.asking.second_factor or (proposed is not None and proposed.asking.second_factor)
    if not item.mine or not needed:
        return {}
    if has_confirmed(request.caller):
        return {"factor": "confirmed"}
    return {"factor": "missing" if own_factor(request.caller) is None else "asked"}


def preview(item: InboxItem) -> dict[str, Any]:
    """The template context of an approval's preview, with the differences from the preview that was approved before."""
    shown = previews.shown_preview(item.id) if item.asking.preview is not None else None
    if shown is None:
        return {}
    differs = line_changes(shown.before or "", shown.text or "") if shown.changed and shown.ended_at else None
    return {"preview": shown, "preview_differs": differs}


def approved(item: InboxItem) -> dict[str, Any]:
    """The template context of an approval except the arguments: the tool's definition and its changes, answers that
    came with the call, and what people changed of its arguments."""
    call = approved_call(item.id) if item.kind is QuestionKind.APPROVAL and not item.unreadable else None
    if call is None:
        return {}
    schema = (call.definition or {}).get("inputSchema")
    rows = content.folded_rows(content.rows(item.runs_with, schema))
    changed = changes(call.before, call.definition) if call.before not in (None, call.definition) else None
    came_along = [(key, content.folded_rows(content.rows(value))) for key, value in call.came_along.items()]
    found = {"call": call, "changed": changed, "came_along": came_along, "rows": rows}
    if item.edited is None:
        return found
    edited = of_arguments(item.arguments, item.runs_with, schema)
    return found | {"edited": edited, "edit_reason": edit_reason(item.id)}


def replaced(item: InboxItem) -> dict[str, Any]:
    """The template context of an approval that was replaced by another one."""
    return {"replaced": replaced_by(item.id) if item.state is QuestionState.SUPERSEDED else None}


def lost(item: InboxItem) -> dict[str, Any]:
    """The template context of a question about a lost run: when it began and was lost, as times, and what the tool's
    companion says."""
    if item.kind is not QuestionKind.OUTCOME:
        return {}
    call = lost_call(item.id)
    times = {name: str(item.params.get(name) or "") for name in ("began", "lost")}
    found: dict[str, Any] = {name: datetime.fromisoformat(text) if text else None for name, text in times.items()}
    failed = call.check_result is not None and json.loads(call.check_result).get("isError") is True
    return found | {"lost_call": call, "check_outcome": content.outcome(call.check_result), "check_failed": failed}


def link(item: InboxItem) -> content.Link | None:
    """The link of an elicitation in url mode, with the host that it really leads to; `None` for other questions."""
    if item.params.get("mode") != "url":
        return None
    return content.link(str(item.params.get("url", "")))


def would_wait(request: ConsoleRequest, item: InboxItem) -> dict[str, Any]:
    """The template context that says whether the call would run after an approval, or after the ruling that it did not
    run. `waits`: why it would not run now, as a sentence, empty if it would. `never`: whether it would not run later
    either. `by_rules`: in place of both, what the rules in force now do that are not those that asked."""
    found = None
    if item.mine and item.kind in (QuestionKind.APPROVAL, QuestionKind.OUTCOME):
        found = waiting_task(request.person.tenant_id, item.public_id)
    if found is None or found.task.state in TERMINAL:
        return {"waits": "", "never": False}
    if said := by_rules(item, found):
        return {"by_rules": said}
    waits = story.asked_again(found, item.id) or story.held_up(found, datetime.now(UTC))
    return {"waits": waits, "never": bool(waits) and waits == story.never(found)}


def by_rules(item: InboxItem, found: TaskDetail) -> str:
    """What becomes of the call by the rules in force now although this question is answered by an approval, as a
    sentence; empty if it runs, and if something else decides that."""
    if item.kind is not QuestionKind.APPROVAL or item.unreadable or not found.to_decide or story.never(found):
        return ""
    outlook = recheck.outlook(item.task_id, item.question, item.runs_with)
    # Where the client makes the call itself, its permit is refused, and nobody is asked again before it wants another.
    if "permit" in item.params and outlook.asked_again:
        return ""
    return story.by_rules(found, item.id, outlook)


def undecidable(item: InboxItem) -> dict[str, int]:
    """The template context of an open approval that too few people may give: how many may, and how many are still
    needed. Empty if enough may, or if the time for the decision is over, which the page says elsewhere."""
    if item.kind is not QuestionKind.APPROVAL or item.obstacle is Obstacle.OVERDUE:
        return {}
    left, needed = approvers_left(item.id), item.quorum - item.approvals
    return {"able": left, "needed": needed} if left is not None and left < needed else {}


def closed_words(item: InboxItem) -> str:
    """How a closed question ended, as a sentence; empty while it is open."""
    if item.state is QuestionState.OPEN:
        return ""
    if item.last_verdict in ("allow", "deny"):
        what = "let the call run" if item.last_verdict == "allow" else "denied the call"
        return f"Nobody decided in time: the {item.last_actor} {what}"
    if item.state is QuestionState.SUPERSEDED and (replaced := replaced_by(item.id)) is not None:
        return f"{replaced.actor} changed arguments of this call, and people are asked about it as it is now"
    if item.state is QuestionState.EXPIRED and item.asking.escalate_to:
        return f"Nobody decided in time: the group {item.asking.escalate_to} was asked then"
    if item.state is QuestionState.ANSWERED and item.last_actor:
        if item.kind is QuestionKind.OUTCOME:
            return f"{item.last_actor} {past(item.last_verdict)}"
        return f"Already {past(item.last_verdict)} by {item.last_actor}"
    if item.state is QuestionState.EXPIRED:
        ruled = item.kind is QuestionKind.OUTCOME
        return f"Nobody {'said' if ruled else 'answered'} in time, so the task failed"
    return f"Closed without an answer: the task is {state_word(item.task_state)}"
