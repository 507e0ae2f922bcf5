"""Filters and tags that draw states, times, numbers, JSON and foreign text the same way on every page."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from heroicons.templatetags.heroicons import heroicon_mini

from taskhub.console.foreign import foreign, foreign_lines, foreign_part, number, spelled
from taskhub.console.htmx import CONFIG
from taskhub.console.palette import pages
from taskhub.console.questions import words_of
from taskhub.console.remarks import remarks_of
from taskhub.console.requests import waiting_of
from taskhub.console.undo import task_of, undo_of
from taskhub.console.verdict_words import minutes, unknown_words, why_words
from taskhub.core import permissions as gate
from taskhub.core.asking import Asking
from taskhub.core.bypass import Bypass
from taskhub.core.records import Person
from taskhub.core.rules import Risk, Then
from taskhub.core.states import State
from taskhub.domain.health.checks import disk_known_full
from taskhub.domain.rules.bypasses import present_bypass
from taskhub.lib import signs

register = template.Library()

LOOKS: Final[dict[str, tuple[str, str]]] = {
    State.QUEUED: ("queue-list", "Queued"),
    State.WORKING: ("arrow-path", "Working"),
    State.INPUT_REQUIRED: ("hand-raised", "Waiting"),
    State.FINISHED: ("check-circle", "Finished"),
    "finished-error": ("exclamation-circle", "Tool error"),
    State.FAULTED: ("x-circle", "Failed"),
    "rejected": ("hand-thumb-down", "Rejected"),
    "expired": ("clock", "Expired"),
    "denied": ("shield-exclamation", "Denied"),
    State.CANCELLED: ("no-symbol", "Cancelled"),
}
"""For each state or look of a task: its icon and word. Its colour in CSS has the same name (`--state-…`). A person's no
(`rejected`), an end because nobody answered or took it in time (`expired`) and a rule's no to a call that had waited
(`denied`) are looks of their own: the tool neither failed nor reported an error."""

WAITING: Final = {"people": "Needs a person", "client": "Waiting for client", "unknown": "Outcome unknown"}
"""The word of a task in `input_required`, by who has to answer."""

WORDS_OF_STATES: Final = {
    State.INPUT_REQUIRED: "waiting",
    State.FAULTED: "failed",
    "asked": "asked a question",
    "released": "returned to the queue",
    "retried": "failed, tried again",
    "superseded": "closed unanswered",
}
"""Words for states of tasks and questions and for outcomes of attempts, where the stored word is not used."""

ENTRIES: Final = (
    ("overview", "Overview", "squares-2x2", "task.view"),
    ("task-list", "Tasks", "queue-list", "task.view"),
    ("inbox", "Inbox", "inbox", "question.answer"),
    ("audit-list", "Audit", "shield-check", "audit.view"),
    ("client-list", "Clients", "key", "client.view"),
    ("server-list", "Servers", "server-stack", "server.view"),
    ("rule-list", "Rules", "scale", "server.view"),
    ("worker-list", "Workers", "cpu-chip", "worker.view"),
    ("settings", "Settings", "adjustments-horizontal", "settings.view"),
)
"""The entries of the side navigation: URL name, word, icon, and the permission that a person needs to see the entry."""

GO_KEYS: Final = {
    "overview": "o",
    "task-list": "t",
    "inbox": "i",
    "audit-list": "a",
    "client-list": "c",
    "server-list": "s",
    "rule-list": "r",
    "worker-list": "w",
    "settings": "e",
}


@functools.lru_cache(maxsize=256)
def _icon(name: str, size: int, css: str) -> str:
    attrs = {"class": css} if css else {}
    # The SVG comes from files of heroicons, so it is safe to mark it as markup.
    return str(heroicon_mini(name, size=size, aria_hidden="true", focusable="false", **attrs))


@register.simple_tag
def icon(name: str, size: int = 20, css: str = "") -> SafeString:
    """An inline heroicon of the "mini" set. It is hidden from screen readers, so put a word beside it."""
    return mark_safe(_icon(str(name), size, str(css)))  # noqa: S308


register.filter("asked", words_of)
register.filter("task_of", task_of)
register.filter("undo_of", undo_of)
register.filter("of_key", remarks_of)


@register.simple_tag
def badge(kind: str, icon_name: str, word: str) -> SafeString:
    """A badge with icon and word. `kind` sets the colour: a state, `good`, `warn`, `danger`, `accent`, or empty."""
    return format_html('<span class="badge {}">{}{}</span>', kind, icon(icon_name), word)


NEWS: Final = {
    "added": ("good", "plus-circle", "Added"),
    "new": ("good", "plus-circle", "New"),
    "removed": ("danger", "minus-circle", "Removed"),
    "gone": ("danger", "minus-circle", "Gone"),
    "changed": ("warn", "pencil-square", "Changed"),
}
"""The badges of things that are new, changed or gone: kind, icon and word."""


@register.simple_tag
def change_badge(kind: str) -> SafeString:
    """A badge that says whether a tool, or a part of its definition, is new, changed or gone; nothing for an empty
    `kind`."""
    return badge(*NEWS[kind]) if kind else mark_safe("")


THEN: Final = {
    Then.HIDE: ("", "eye-slash", "Hide"),
    Then.DENY: ("danger", "no-symbol", "Deny"),
    Then.ASK: ("warn", "hand-raised", "Ask"),
    Then.ALLOW: ("good", "check-circle", "Allow"),
}
"""The badges of what rules do: kind, icon and word."""


@register.simple_tag
def then_badge(then: str) -> SafeString:
    """What a rule does with a call, as a badge."""
    return badge(*THEN[Then(then)])


RISKS: Final = {
    Risk.HIGH: ("warn", "exclamation-triangle", "High risk"),
    Risk.CRITICAL: ("danger", "fire", "Critical"),
}
"""The badges of risks, except a low one: kind, icon and word."""


@register.simple_tag
def risk_badge(risk: str) -> SafeString:
    """The risk of a call as a badge; nothing for a low one."""
    return badge(*RISKS[Risk(risk)]) if risk in RISKS else mark_safe("")


@register.simple_tag
def sentence(asking: Asking) -> SafeString:
    """The rule's sentence about what will happen, with the values of the call marked."""
    return format_html_join(
        "",
        "{}",
        (
            (format_html('<span class="given">{}</span>', foreign(part)) if value else foreign_part(part),)
            for part, value in asking.sentence
        ),
    )


OUTCOMES: Final = {
    Then.HIDE: ("", "eye-slash", "Hidden"),
    Then.DENY: ("danger", "no-symbol", "Denied"),
    Then.ASK: ("warn", "hand-raised", "Asked"),
    Then.ALLOW: ("good", "check-circle", "Allowed"),
}
"""The badges of what happens to calls: kind, icon and word."""


@register.simple_tag
def outcome_badge(then: str) -> SafeString:
    """What happens to a call, as a badge."""
    return badge(*OUTCOMES[Then(then)])


register.filter("unknowns", unknown_words)
register.filter("why", why_words)


@register.simple_tag
def state_badge(
    state: str, is_error: bool = False, cancel_requested: Any = None, waiting_for: str = "", ended_as: str = ""
) -> SafeString:
    """A task's state as a badge. A finished task whose tool reported an error has a look of its own, as has `ended_as`;
    a request to cancel is shown until the task has ended."""
    look = ended_as or ("finished-error" if state == State.FINISHED and is_error else str(state))
    name, word = LOOKS[look]
    if state == State.INPUT_REQUIRED and waiting_for:
        word = WAITING.get(waiting_for, word)
    ended = state in (State.FINISHED, State.FAULTED, State.CANCELLED)
    if cancel_requested and not ended:
        return format_html('<span class="badge cancelled">{}Cancel requested</span>', icon("no-symbol"))
    spin = "spin" if state == State.WORKING else ""
    return format_html('<span class="badge {}">{}{}</span>', look, icon(name, css=spin), word)


@register.filter
def outcome_word(tab: str) -> str:
    """The word of a tab of the task list."""
    return LOOKS["finished-error" if tab == "error" else tab][1]


@register.simple_tag
def ended_in(tab: str, start: datetime, end: datetime | None = None) -> str:
    """The query of the tasks of a tab that ended from `start` until `end`."""
    times = {"since": start, "until": end}
    wanted = {"state": tab, "by": "ended", **{name: f"{at:%Y-%m-%dT%H:%M:%S}" for name, at in times.items() if at}}
    return "?" + urlencode({name: value for name, value in wanted.items() if value})


@register.simple_tag
def ago(at: datetime | None, empty: str = "never") -> SafeString:
    """How long ago (or until) `at` is, with the exact moment in `datetime` and `title`."""
    if at is None:
        return format_html('<span class="faint">{}</span>', empty)
    at = at.astimezone(UTC)
    seconds = (datetime.now(UTC) - at).total_seconds()
    return format_html(
        '<time datetime="{}" title="{} UTC" data-ago>{}</time>',
        at.isoformat(timespec="milliseconds"),
        at.strftime("%Y-%m-%d %H:%M:%S"),
        relative(seconds),
    )


@register.simple_tag
def since(at: datetime) -> SafeString:
    """How long ago `at` is, as a running clock, which live.js updates."""
    return format_html(
        '<time datetime="{}" title="since {} UTC" data-since>{}</time>',
        at.astimezone(UTC).isoformat(timespec="milliseconds"),
        at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        duration(max(datetime.now(UTC) - at, timedelta())),
    )


@register.simple_tag
def told(parts: Iterable[Any]) -> SafeString:
    """A sentence of `console.story`, with its times drawn by `since` and `ago`."""
    shown = (foreign_part(p) if isinstance(p, str) else since(p.at) if p.spent else ago(p.at) for p in parts)
    return mark_safe("".join(shown))  # noqa: S308 - every part is escaped


@register.simple_tag
def clock(at: datetime | None) -> SafeString:
    """The exact moment in UTC, to the second, for lists in which many events share a minute."""
    if at is None:
        return mark_safe("")
    at = at.astimezone(UTC)
    today = at.date() == datetime.now(UTC).date()
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        at.isoformat(timespec="milliseconds"),
        at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        at.strftime("%H:%M:%S" if today else "%d %b %H:%M:%S"),
    )


def relative(seconds: float) -> str:
    """The text of `ago` for a time that was `seconds` ago. live.js computes the same text."""
    size = abs(round(seconds))
    if size < 5:
        return "just now"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if size >= length:
            amount = f"{size // length} {unit}"
            return f"{amount} ago" if seconds > 0 else f"in {amount}"
    return "just now"


@register.filter
def duration(value: timedelta | float | None) -> str:
    """A span of time in at most two units: `840 ms`, `2.4 s`, `3 min 20 s`, `2 d 4 h`."""
    if value is None:
        return ""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for (unit, size), (small, below) in (
        (("d", 86_400), ("h", 3_600)),
        (("h", 3_600), ("min", 60)),
        (("min", 60), ("s", 1)),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


@register.filter
def state_word(state: str) -> str:
    """The word for a state or an outcome, for use within a sentence."""
    return WORDS_OF_STATES.get(state) or spelled(state)


SAID: Final = {
    "working": "it is working",
    "input_required": "it wants an answer",
    "completed": "it is completed",
    "failed": "it has failed",
    "cancelled": "it is cancelled",
    "unknown": "nothing that tells how it ended",
}


@register.filter
def said(status: str) -> str:
    """The last status of a server's task, for use within a sentence."""
    return SAID.get(status) or spelled(status)


NOT_COUNTED: Final = {
    "rules_changed": "the rules had changed",
    "bypass_over": "the bypass was over",
    "tool_changed": "the tool had changed",
    "approved_tool_changed": "the tool had changed",
    "approved_call_changed": "the call or its server’s address had changed",
    "approver_left": "one of those who approved it no longer may",
    "preview_changed": "its preview had changed",
}
PAST: Final = {
    "approve": "approved",
    "reject": "rejected",
    "allow": "let it run, as nobody decided",
    "deny": "denied it, as nobody decided",
    "decline": "declined",
    "cancel": "dismissed",
    "ran": "ruled that it ran",
    "unrun": "ruled that it did not run",
}


register.filter(minutes)


@register.filter
def not_counted(why: str) -> str:
    """What became of a call that people approved, where it did not run (`InboxItem.not_counted`)."""
    if why in ("deny", "hide"):
        return f"not run, as a rule {'denied' if why == 'deny' else 'hid'} it by then"
    return f"asked again, as {NOT_COUNTED.get(why, NOT_COUNTED['approved_call_changed'])}"


@register.filter
def past(verdict: str) -> str:
    """The past tense of a verdict."""
    return PAST.get(verdict, "answered")


@register.filter
def pretty(value: Any) -> str:
    """The value as indented JSON, with non-ASCII characters kept. JSON text is decoded first; other text is returned
    unchanged."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    return signs.visible_json(value)


@register.filter
def plain(value: Any) -> str:
    """A JSON value on one line: text without quotes, the rest as JSON."""
    return value if isinstance(value, str) else signs.visible_json(value, indent=None)


@register.filter
def prose(text: str) -> SafeString:
    """One of our own sentences in Markdown as HTML: `code` and *names* are marked up."""
    escaped = str(escape(text))
    marked = re.sub(r"`([^`]+)`|\*([^*]+)\*", lambda found: _prose(found[1], found[2]), escaped)
    return mark_safe(marked)  # noqa: S308 - escaped before


def _prose(code: str | None, name: str | None) -> str:
    return f"<code>{code}</code>" if code else f"<b>{name}</b>"


register.filter(foreign)
register.filter(foreign_lines)
register.filter(spelled)


register.filter(number)


@register.filter
def percent(value: float | None, total: float | None) -> int | None:
    """`value` as a percentage of `total`, from 0 to 100; `None` if there is no total."""
    if value is None or not total or total <= 0:
        return None
    return max(0, min(100, round(100 * value / total)))


@register.inclusion_tag("parts/nav.html")
def nav(request: HttpRequest, person: Person) -> dict[str, Any]:
    """The entries of the side navigation that the person's role may open."""
    return {
        "entries": [
            {
                "url": (path := reverse(name)),
                "word": word,
                "icon": image,
                "current": request.path == path if name == "overview" else request.path.startswith(path),
                "inbox": name == "inbox",
            }
            for name, word, image, permission in ENTRIES
            if gate.allows(person, permission)
        ],
        "count": inbox_number(request, person),
    }


@register.simple_tag
def inbox_number(request: HttpRequest, person: Person) -> int | None:
    """How many open questions wait for the person; `None` if the role may not answer."""
    if not gate.allows(person, "question.answer"):
        return None
    return waiting_of(request, person).mine


@register.filter
def hears_news(person: Person | None) -> bool:
    """Whether news reach the person: they may answer questions, and see pages."""
    return person is not None and not person.password_due and gate.allows(person, "question.answer")


@register.simple_tag
def disk_full() -> bool:
    """Whether this process knows that the database has no room for new data."""
    return disk_known_full()


@register.simple_tag
def bypass_in_force(person: Person) -> Bypass | None:
    """The tenant's bypass that is in force."""
    return present_bypass(person.tenant_id)


@register.simple_tag
def waiting_for_me(request: HttpRequest, person: Person) -> int:
    """How many calls wait for an approval that the person may give."""
    return waiting_of(request, person).approvals


@register.filter
def may_end_bypass(person: Person) -> bool:
    """Whether the person may end a bypass."""
    return gate.allows(person, "server.manage")


@register.filter
def utc_minute(at: datetime) -> SafeString:
    """The time in UTC to the minute, with its date if that is not today."""
    at = at.astimezone(UTC)
    today = at.date() == datetime.now(UTC).date()
    return format_html(
        '<time datetime="{}" title="{} UTC">{} UTC</time>',
        at.isoformat(timespec="seconds"),
        at.strftime("%Y-%m-%d %H:%M:%S"),
        at.strftime("%H:%M" if today else "%d %b %H:%M"),
    )


@register.simple_tag
def htmx_config() -> str:
    """The configuration of htmx on every page, as JSON."""
    return json.dumps(CONFIG, separators=(",", ":"))


@register.simple_tag
def go_keys(person: Person | None) -> str:
    """The person's `g` shortcuts as JSON for keys.js: key to URL."""
    return json.dumps({key: reverse(name) for key, name, _ in _going(person)})


@register.filter
def goes(person: Person | None) -> list[tuple[str, str]]:
    """The person's `g` shortcuts as (key, word), for the page's list of keys."""
    return [(key, word) for key, _, word in _going(person)]


@register.filter
def reached(person: Person) -> list[tuple[str, str, str]]:
    """The pages of the command palette as (address, word, shortcut): those of the navigation, then others."""
    listed = [(reverse(name), word, f"g {key}") for key, name, word in _going(person)]
    return listed + [(f"{reverse(name)}{query}", words, "") for name, query, words in pages(person)]


def _going(person: Person | None) -> list[tuple[str, str, str]]:
    """The pages that the person may see, as (key, URL name, word)."""
    if person is None:
        return []
    entries = [(name, word) for name, word, _, permission in ENTRIES if gate.allows(person, permission)]
    return [(GO_KEYS[name], name, word) for name, word in entries if name in GO_KEYS]


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """The page's query string with `changes`; an empty value removes its key. The cursor `before` is dropped unless
    `changes` has it, because a changed filter starts at the first page."""
    params = context["request"].GET.copy()
    params.pop("before", None)
    for key, value in changes.items():
        if value in (None, ""):
            params.pop(key, None)
        else:
            params[key] = str(value)
    encoded = params.urlencode()
    return f"?{encoded}" if encoded else "?"
