"""Explains a task on its page: sentences about its state, its history as text, and the coordinates of its timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from django.utils.text import capfirst

from taskhub.console.actions import ACTIONS
from taskhub.console.questions import WORDS
from taskhub.console.templatetags.console import duration, past, state_word
from taskhub.console.undo import held_words
from taskhub.core.rules import Otherwise, Then
from taskhub.core.states import TERMINAL, Audience, Door, QuestionKind, QuestionState, State
from taskhub.core.transports import CALLS_AT_ONCE
from taskhub.core.words import words
from taskhub.domain.foreign import foreign
from taskhub.domain.tasks.detail import AttemptRow, TaskDetail, TaskEvent, TaskQuestion
from taskhub.domain.tasks.recheck import Outlook

DOORS: Final[dict[str, str]] = {
    Door.WEB: "in the console",
    Door.API: "through the API",
    Door.CLIENT: "as a client",
    Door.POLICY: "by policy",
    Door.WORKER: "as a worker",
    Door.CLI: "on the command line",
    Door.SQL: "in the database",
    Door.SLACK: "in Slack",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the history as text."""

    at: datetime
    icon: str
    words: str
    actor: str
    door: str
    address: str
    note: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a lane; `x` and `width` are percentages with three decimals, ready for SVG."""

    x: str
    width: str
    look: str
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A named row of bars of the timeline; `y` is its top in pixels."""

    name: str
    y: int
    bars: tuple[Bar, ...]

    @property
    def label_y(self) -> int:
        """The baseline of the name above the bars."""
        return self.y + 11

    @property
    def bar_y(self) -> int:
        """The top of the bars."""
        return self.y + 17


@dataclass(frozen=True, slots=True)
class Fold:
    """A long idle stretch of the timeline that is drawn short, labelled with its real duration."""

    x: str
    width: str
    middle: str
    words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The drawing of a task's life, from its creation to its end, or to the present: rows of bars, one each for
    attempts, waits and decisions."""

    lanes: tuple[Lane, ...]
    folds: tuple[Fold, ...]
    height: int
    axis_y: int
    fold_y: int
    start: datetime
    end: datetime
    ended: bool


@dataclass(frozen=True, slots=True)
class Time:
    """A time within a sentence. By default it is drawn as a running clock of the time since `at`; with `spent=False`,
    as a time of the past (`ago`)."""

    at: datetime
    spent: bool = True


Told = tuple[str | Time, ...]
"""A sentence in parts: text and times."""

_ASKED_AGAIN: Final = frozenset({"tool_changed", "approved_tool_changed", "approved_call_changed", "approver_left"})
"""The reasons (of `th_unfit`) for which a claim asks for another approval. For any other reason it ends the call."""
_ENDED: Final = frozenset({
    "server_removed", "client_locked_out", "tool_turned_off", "tool_not_offered", "denied_by_rule",
})  # fmt: skip
"""The reasons in the error of a call that a claim has ended."""

OTHERWISE: Final = {
    Otherwise.DENY: "it is denied",
    Otherwise.ALLOW: "it runs all the same",
    Otherwise.ESCALATE: "another group is asked",
}
"""What happens to a call on which nobody decides in time, worded for a sentence that ends with the time."""
LANE_HEIGHT: Final = 40
FOLDED: Final = 0.55
"""A stretch without events is folded if it takes more than this share of the timeline."""
FOLD_WIDTH: Final = 0.2
FOLD_FROM: Final = 10.0
"""Seconds. A shorter stretch of the timeline is never folded."""
PACE_FROM: Final = 10.0
"""Seconds that a run must have lasted before its progress is used to predict its end."""
FURTHEST: Final = 10 * 365 * 86_400.0
"""The latest end that is predicted, in seconds after the start of the run."""
LATE: Final = timedelta(seconds=5)
"""If nobody has polled for this long after a poll was due, the page says that nobody polls."""
NEAR: Final = 80
"""Percent. A run without progress is reported as close to its time limit when it has used this much of the limit."""


def why(detail: TaskDetail, now: datetime) -> Told:
    """A few sentences: why the task is in its state, and what has to happen for it to go on."""
    last = max(_approvals(detail), key=lambda asked: asked.id, default=None)
    allowed = next((vote for vote in last.votes if vote.verdict == "allow"), None) if last else None
    undecided = () if allowed is None else (f"Nobody approved this call: the {allowed.actor} {past('allow')}. ",)
    return (*undecided, *_why(detail, now))


def _why(detail: TaskDetail, now: datetime) -> Told:
    task = detail.task
    if task.state is State.WORKING:
        return _why_working(detail, now)
    if task.state is State.INPUT_REQUIRED:
        open_ones = [_why_waiting(question) for question in detail.questions if question.state is QuestionState.OPEN]
        return tuple(part for told in open_ones for part in (*told, " "))
    return (_why_queued(detail, now) if task.state is State.QUEUED else _why_ended(detail, now),)


def left(detail: TaskDetail) -> Told:
    """A sentence saying that the caller of a plain call has left, when, and what follows; empty if it has not left."""
    task = detail.task
    if task.left_at is None:
        return ()
    if task.state in (State.FINISHED, State.FAULTED):
        what = "result" if task.state is State.FINISHED else "error"
        end = f". Its {what} was not fetched."
    elif task.state is State.CANCELLED or task.cancel_requested_at:
        end = "."
    else:
        end = f". The call goes on{' and can be joined' if task.join_seconds is not None else ''}."
    return ("The caller has left, ", Time(task.left_at, spent=False), end)


def near_limit_in(detail: TaskDetail, now: datetime) -> int | None:
    """Seconds until a run without progress is reported as close to its time limit. `None` if it is reported already, if
    its progress predicts the end, or if the task does not run."""
    stops = _stops_at(detail, now)
    if stops is None or _ends_at(detail) is not None:
        return None
    left = (stops - now).total_seconds() - (1 - NEAR / 100) * detail.run_seconds
    return int(left) + 1 if left > 0 else None


def _why_ended(detail: TaskDetail, now: datetime) -> str:
    task = detail.task
    took = duration((task.ended_at or now) - task.created_at)
    if task.state is State.FINISHED:
        votes = {vote.verdict: vote for question in detail.questions for vote in question.votes}
        if rejected := votes.get("reject"):
            return f"Rejected by {rejected.actor}; the tool did not run. The caller was told why."
        if denied := votes.get("deny"):
            return f"Nobody decided in time: the {denied.actor} denied the call, and the tool did not run."
        if ruled := votes.get("ran"):
            return f"Its run was lost. {ruled.actor} ruled that it ran: {ruled.reason}"
        runs = len(detail.attempts)
        how = "" if runs < 2 else f", in {runs} attempts"
        if task.is_error:
            return f"The tool reported an error after {took}{how}."
        return f"The tool answered after {took}{how}."
    if task.state is State.CANCELLED:
        asked = next((e for e in detail.events if e.action in ("task.cancel.requested", "task.cancelled")), None)
        by = f" by {asked.actor}" if asked and asked.actor != "sweep" else ""
        return f"Cancelled{by}, {took} after it was created."
    if "outcome_unknown" in (task.error_json or ""):
        return (
            "Its run was lost, and nobody said in time whether the tool ran. It may or may not have done its work:"
            " check, then run it again if it has not."
        )
    return f"The call failed after {took}, without a result from the tool."


def _ended_unfit(error_json: str | None) -> bool:
    """Whether a claim ended the call because it must not run."""
    data = foreign(error_json or "{}").found.get("data")
    return isinstance(data, dict) and data.get("reason") in _ENDED


def _why_queued(detail: TaskDetail, now: datetime) -> str:
    count = detail.live_workers
    slot = f"Waiting for a free slot on {'the worker' if count == 1 else f'one of {count} workers'}."
    return held_words(detail, now) or held_up(detail, now) or slot


def _approvals(detail: TaskDetail) -> list[TaskQuestion]:
    return [asked for asked in detail.questions if asked.kind is QuestionKind.APPROVAL]


def asked_again(detail: TaskDetail, question_id: int) -> str:
    """A sentence that says that an approval of this question is not enough, because something has changed, so that
    people are asked again; empty if they are not."""
    of = _approvals(detail)
    again = next((asked for asked in of if asked.id > question_id and asked.state is QuestionState.OPEN), None)
    if again is not None:
        before, now = (_said(of, each) for each in (question_id, again.id))
        if now and now.get("again"):
            return f"{_changed(before, now['rule'], now['version'])}: people are asked again as it is now."
        return (
            "The call, its tool, its preview or the rules have changed meanwhile, so another approval has been asked"
            " for."
        )
    # The next claim of the call asks for the approval (`th_hold_back`). A running call was checked at its claim.
    outdated = any(asked.id == question_id and asked.outdated for asked in _approvals(detail))
    if outdated and detail.task.state is not State.WORKING:
        return "The tool has changed meanwhile, so another approval will be asked for, with what has changed."
    return ""


def _said(asked: list[TaskQuestion], question_id: int) -> dict[str, Any] | None:
    """What the approval `question_id` keeps of the rule that asked for it; `None` if no rule did."""
    return next((each.params.get("decided") for each in asked if each.id == question_id), None)


def by_rules(detail: TaskDetail, question_id: int, found: Outlook) -> str:
    """A sentence that says that by the rules in force now, the call does not run although this question was or will be
    approved: it is denied, or people are asked again. Empty if it runs."""
    verdict = found.verdict
    if verdict.then is Then.DENY:
        what = f"hidden from {detail.client}" if verdict.hidden else "denied"
        return f"By the rules in force now this call is {what}: it does not run, whatever is decided."
    if not found.asked_again or verdict.rule is None:
        return ""
    of = _approvals(detail)
    if_ = "if approved, " if any(each.id == question_id and each.state is QuestionState.OPEN for each in of) else ""
    changed = _changed(_said(of, question_id), verdict.rule.name, verdict.version)
    return f"{changed}: {if_}people are asked again as it is now."


def _changed(before: dict[str, Any] | None, rule: str, version: int) -> str:
    """The beginning of a sentence: which rule asks now, and whether that is another rule or a new version of the rule
    in `before`, which is what an earlier approval keeps of its rule."""
    if not before:
        return f"A rule asks about this call now (version {version})"
    changed = "The rule has changed" if before["rule"] == rule else "Another rule asks"
    return f"{changed} since (version {before['version']}, now {version})"


def never(detail: TaskDetail) -> str:
    """A sentence that says why the call will never run, even if people approve it; empty if it may run."""
    task, why = detail.task, detail.unfit_why
    if task.state in TERMINAL:
        # A worker has ended the call since the page was drawn.
        return f"{task.message.removesuffix('.')}." if _ended_unfit(task.error_json) else ""
    if not detail.unfit or detail.unfit in (*_ASKED_AGAIN, "rejected"):
        # A claim ends an approved call whose tool is gone.
        if not (detail.tool_gone and _approvals(detail)):
            return ""
        why = words("tool_not_offered")
    return f"{capfirst(why)}: the next claim of a worker ends the call."


def held_up(detail: TaskDetail, now: datetime) -> str:
    """A sentence that says why the call cannot run yet, or will never run, although no question is open; empty if it
    only needs a free slot."""
    if not detail.server_enabled and not detail.server_removed:
        return f"{words('paused', detail.server)}."
    if ends := never(detail):
        return ends
    if detail.unfit and not any(asked.state is QuestionState.OPEN for asked in _approvals(detail)):
        return f"{capfirst(detail.unfit_why)}, so an approval will be asked for, with what has changed."
    if detail.live_workers == 0:
        return "No worker is running. Start one with “manage.py worker”."
    if detail.away_since is not None and detail.retry_at is not None:
        since, left = duration(now - detail.away_since), detail.retry_at - now
        when = f"in {duration(left)}" if left > timedelta(seconds=1) else "now"
        return f"Waiting for its server, which could not be reached for {since}. The next attempt is {when}."
    queued = detail.task.state is State.QUEUED  # else `runnable_at` is of an earlier wait, or of an undone decision
    if queued and detail.runnable_at > now + timedelta(seconds=1) and not held_words(detail, now):
        why = detail.task.message or "Returned to the queue"
        return f"{why}: next attempt in {duration(detail.runnable_at - now)}."
    count = detail.live_workers
    takes = detail.calls_at_once or CALLS_AT_ONCE[detail.transport]
    if detail.running_there >= takes * count:
        before = {0: "This call is next", 1: "One call is ahead of it"}.get(
            detail.ahead, f"{detail.ahead} calls are ahead of it"
        )
        takes_words = "one call" if takes == 1 else f"{takes} calls"
        return f"Waiting for its server, which takes {takes_words} at a time per worker. {before}."
    return ""


def _why_working(detail: TaskDetail, now: datetime) -> Told:
    attempt = detail.attempts[-1] if detail.attempts else None
    running: Told = (" for ", Time(attempt.started_at)) if attempt else ()
    number = f", attempt {attempt.number}" if attempt and attempt.number > 1 else ""
    if attempt and attempt.server_task and attempt.poll_at:
        return _why_deferred(detail, attempt, attempt.poll_at, number, now)
    told: Told = (f"Running on {detail.worker}", *running, f"{number}.")
    if detail.task.cancel_requested_at:
        asked = Time(detail.task.cancel_requested_at, spent=False)
        return (*told, " Cancel was requested ", asked, "; the worker is stopping the tool.")
    if detail.lease_until and detail.lease_until < now:
        after = "run again" if detail.at_least_once else "wait for a person who says whether the tool ran"
        return (*told, f" The worker has stopped responding; the task will {after} at the next sweep.")
    return (*told, _limit(detail, now))


def _why_deferred(detail: TaskDetail, attempt: AttemptRow, poll_at: datetime, number: str, now: datetime) -> Told:
    """Why a deferred call is in its state: its server runs the call as a task of its own."""
    since = Time(attempt.deferred_at or attempt.started_at)
    told: Told = (f"Running at server {detail.server}, as a task of its own, for ", since, f"{number}.")
    if detail.task.cancel_requested_at:
        asked = Time(detail.task.cancel_requested_at, spent=False)
        then = "has ten seconds to stop the tool" if detail.server_enabled else "is disabled, so it is not asked"
        return (*told, " Cancel was requested ", asked, f"; the server {then}.")
    if not detail.server_enabled:
        return (*told, " The server is disabled, so it is not asked for the result, but the tool may go on.")
    if (late := now - poll_at) > LATE:
        return (*told, f" No worker has asked the server for {duration(late)}, but the tool may go on.")
    return (*told, _limit(detail, now))


def _limit(detail: TaskDetail, now: datetime) -> str:
    """A warning that the run will probably reach its time limit; empty if that is not expected."""
    stops = _stops_at(detail, now)
    if stops is None:
        return ""
    ends = _ends_at(detail)
    near = (stops - now).total_seconds() <= (1 - NEAR / 100) * detail.run_seconds
    if not near if ends is None else ends <= stops:
        return ""
    pace = "" if ends is None else f" At this rate it would take until {_at(ends, now)}."
    return f"{pace} It will be stopped at its run timeout of {duration(detail.run_seconds)}, at {_at(stops, now)}."


def _stops_at(detail: TaskDetail, now: datetime) -> datetime | None:
    """When the current run reaches its time limit; `None` if there is no run. The time for which the tool waited for an
    answer is added to the limit."""
    if detail.task.state is not State.WORKING or not detail.attempts:
        return None
    begun = detail.attempts[-1].started_at
    waited = [(q.closed_at or now) - q.opened_at for q in detail.questions if q.live and q.opened_at >= begun]
    return begun + timedelta(seconds=detail.run_seconds) + sum(waited, timedelta())


def _ends_at(detail: TaskDetail) -> datetime | None:
    """When the run will end at its present rate of progress; `None` if that cannot be predicted."""
    last = next((line for line in reversed(detail.lines) if line.progress is not None), None)
    if last is None or not last.progress or last.progress != detail.task.progress or not last.total:
        return None
    begun = detail.attempts[-1].started_at
    spent = (last.at - begun).total_seconds()
    share = last.progress / last.total
    if spent < PACE_FROM or not share > 0:
        return None
    return begun + timedelta(seconds=min(spent / share, FURTHEST))


def _at(moment: datetime, now: datetime) -> str:
    moment = moment.astimezone(UTC)
    return f"{moment:%H:%M} UTC" if moment - now < timedelta(hours=20) else f"{moment:%d %b %H:%M} UTC"


def _why_waiting(question: TaskQuestion) -> Told:
    since = Time(question.opened_at)
    due: Told = (".",)
    if question.due_at:
        due = (". Unanswered, it fails ", Time(question.due_at, spent=False), ".")
    if question.kind is QuestionKind.APPROVAL:
        left = question.quorum - question.approvals
        from_ = f" from group {question.group}" if question.group else ""
        if question.asking.otherwise is not None and question.due_at:
            then = OTHERWISE[question.asking.otherwise]
            due = (f". Undecided, {then} ", Time(question.due_at, spent=False), ".")
            if question.is_over:
                due = (f". The time to decide is over: {then} within seconds.",)
        more = "one approval" if left == 1 and question.quorum == 1 else f"{left} more approval{'s' * (left != 1)}"
        count = f" ({question.approvals} of {question.quorum})" if question.quorum > 1 else ""
        return ("Waiting ", since, f" for {more}{from_}{count}", *due)
    by = {
        Audience.CLIENT: "the client",
        Audience.OPERATOR: "a person",
        Audience.EITHER: "the client or a person",
    }[question.audience]
    if question.kind is QuestionKind.OUTCOME:
        told = f"{question.params.get('told', '')}. Nobody knows whether the tool did its work. Waiting "
        return (told, since, " for a person who says so", *due)
    group = f" in group {question.group}" if question.group else ""
    return ("Waiting ", since, f" for {WORDS[question.kind].noun} by {by}{group}", *due)


def moments(events: Sequence[TaskEvent]) -> tuple[Moment, ...]:
    """The history, newest event first. `question.asked` is left out, because the change of the task's state says the
    same."""
    return tuple(_moment(event) for event in reversed(events) if event.action != "question.asked")


def _moment(event: TaskEvent) -> Moment:
    image, done = ACTIONS.get(event.action, ("ellipsis-horizontal-circle", event.action))
    after = event.after or {}
    note = event.reason
    if event.action == "task.write.stale":
        note = f"{after.get('write', 'write')} under lease {after.get('epoch')}, current lease {after.get('current')}"
    elif event.action == "task.left":
        note = ""  # the event's reason only says again that the caller left
    elif event.action.startswith("task.") and not note:
        note = str(after.get("message") or "")
    return Moment(
        at=event.at,
        icon=image,
        words=done,
        actor=event.actor,
        door=DOORS.get(event.door, event.door),
        address=event.address,
        note=note,
    )


def timeline(detail: TaskDetail, now: datetime) -> Timeline:
    """Lanes for attempts, questions and decisions on a common time scale, on which long idle stretches are folded."""
    start = detail.task.created_at.astimezone(UTC)
    end = max((detail.task.ended_at or now), start + timedelta(milliseconds=1))
    scale = _Scale(start, end, _times(detail), [(a.started_at, a.ended_at or end) for a in detail.attempts])
    runs = [
        Bar(
            *scale.span(a.started_at, a.ended_at or end),
            look=_outcome_look(a.outcome, detail),
            title=f"Attempt {a.number} on {a.worker}: {state_word(a.outcome or 'running')},"
            f" {duration((a.ended_at or now) - a.started_at)}",
        )
        for a in detail.attempts
    ]
    waits = [
        Bar(
            *scale.span(q.opened_at, q.closed_at or end),
            look="waiting" if q.state is QuestionState.OPEN else "waited",
            title=f"Waited for {WORDS[q.kind].noun}: {duration((q.closed_at or now) - q.opened_at)},"
            f" {state_word(q.state)}",
        )
        for q in detail.questions
    ]
    said = [
        Bar(*scale.span(v.at, v.at), look=f"vote-{v.verdict}", title=f"{v.actor} {past(v.verdict)}")
        for q in detail.questions
        for v in q.votes
    ]
    named = [(name, bars) for name, bars in (("Attempts", runs), ("Waiting", waits), ("Decisions", said)) if bars]
    lanes = tuple(Lane(name, n * LANE_HEIGHT, tuple(bars)) for n, (name, bars) in enumerate(named))
    axis = len(lanes) * LANE_HEIGHT + 6
    folds = tuple(scale.folds())
    return Timeline(
        lanes=lanes,
        folds=folds,
        height=axis + (20 if folds else 4),
        axis_y=axis,
        fold_y=axis + 15,
        start=start,
        end=end,
        ended=detail.task.ended_at is not None,
    )


def _outcome_look(outcome: str, detail: TaskDetail) -> str:
    if outcome == "finished" and detail.task.is_error and not detail.task.ended_as:
        return "finished-error"
    return outcome or "running"


def _times(detail: TaskDetail) -> Iterable[datetime]:
    for attempt in detail.attempts:
        yield attempt.started_at
        if attempt.ended_at:
            yield attempt.ended_at
    for question in detail.questions:
        yield question.opened_at
        if question.closed_at:
            yield question.closed_at
        for vote in question.votes:
            yield vote.at


class _Scale:
    """Maps times to percentages, piecewise linearly. A stretch is folded if it takes most of the timeline and no
    attempt runs in it."""

    def __init__(
        self,
        start: datetime,
        end: datetime,
        between: Iterable[datetime],
        runs: Sequence[tuple[datetime, datetime]],
    ) -> None:
        whole = (end - start).total_seconds()
        points = sorted({0.0, whole, *(min(max((at - start).total_seconds(), 0.0), whole) for at in between)})
        pieces = [(a, b) for a, b in pairwise(points) if b > a]
        busy = [((a - start).total_seconds(), (b - start).total_seconds()) for a, b in runs]
        folded = [
            (a, b)
            for a, b in pieces
            if b - a > max(whole * FOLDED, FOLD_FROM)
            and len(pieces) > 1
            and not any(begin <= a and b <= finish for begin, finish in busy)
        ]
        rest = whole - sum(b - a for a, b in folded)
        open_share = 1.0 - FOLD_WIDTH * len(folded)
        self._start = start
        self._pieces: list[tuple[float, float, float, float]] = []
        self._folded = folded
        x = 0.0
        for a, b in pieces:
            width = FOLD_WIDTH if (a, b) in folded else open_share * (b - a) / rest
            self._pieces.append((a, b, x, width))
            x += width

    def _x(self, at: datetime) -> float:
        seconds = (at - self._start).total_seconds()
        for a, b, x, width in self._pieces:
            if seconds <= b:
                return x + width * max(seconds - a, 0.0) / (b - a)
        return 1.0

    def span(self, start: datetime, end: datetime) -> tuple[str, str]:
        """`x` and `width` of a bar in percent; even a bar without duration is wide enough to be seen."""
        x = min(self._x(start), 0.992)
        return f"{100 * x:.3f}%", f"{100 * max(self._x(end) - x, 0.008):.3f}%"

    def folds(self) -> Iterable[Fold]:
        """The folded stretches, as the timeline draws them."""
        for a, b, x, width in self._pieces:
            if (a, b) in self._folded:
                yield Fold(f"{100 * x:.3f}%", f"{100 * width:.3f}%", f"{100 * (x + width / 2):.3f}%", duration(b - a))
