"""The queue of the inbox that a URL names: which questions, in which order, by which filters, from which question
on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.urls import reverse

from taskhub.console import query
from taskhub.console.forms.filters import InboxFilters
from taskhub.console.questions import WORDS
from taskhub.console.requests import ConsoleRequest
from taskhub.core.rules import Risk
from taskhub.core.states import QuestionState
from taskhub.domain.questions import inbox
from taskhub.domain.questions.inbox import InboxFilter, InboxItem, Sort

QUEUES: Final = {"mine": "For me", "all": "All open", "decided": "Decided"}
NARROWS: Final = ("tool", "client", "kind", "risk", "group", "age", "conversation")
"""The fields of `InboxFilter` that are parameters of the URL under the same names."""
MOST_WORDS: Final = 8
"""How many words of a search are used; further words are ignored."""


AGES: Final = {"1h": "In the last hour", "over-1h": "Over an hour ago", "over-1d": "Over a day ago"}
SORTS: Final = {Sort.OLDEST: "Oldest", Sort.DUE: "Due soonest", Sort.RISK: "Highest risk", Sort.NEWEST: "Newest"}
FIRST: Final = {Sort.DUE: "first", Sort.NEWEST: "newest"}
"""Calls that are alike are shown as one row, which stands for the oldest of them. Where another one stands for them,
this is the word for it, by order of the list."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as the URL names it. The list begins after the question with the id `after`; 0 stands for the
    beginning."""

    name: str
    wanted: InboxFilter
    text: str
    after: int
    sort: Sort = Sort.OLDEST

    @property
    def foremost(self) -> str:
        """The word for the call that stands for calls that are alike: `oldest`, `newest`, or `first` for the one that
        is due first."""
        return FIRST.get(self.sort, "oldest")

    @property
    def narrowed(self) -> bool:
        """Whether a filter is set."""
        return self.wanted != inbox.EVERYTHING

    def without_filters(self) -> Queue:
        """This queue from its beginning, narrowed to nothing."""
        return replace(self, wanted=inbox.EVERYTHING, text="", after=0)

    def query(self, *, name: str = "", after: int | None = None) -> str:
        """The query string of this queue, or of the queue `name` with the same filters. Empty for the queue that the
        inbox shows without a query string."""
        queue, start = name or self.name, self.after if after is None else after
        told = query.url(
            queue="" if queue == "mine" else queue,
            q=self.text,
            tool=self.wanted.tool,
            client=self.wanted.client,
            kind=self.wanted.kind,
            risk=self.wanted.risk,
            group=self.wanted.group,
            age=self.wanted.age,
            conversation=self.wanted.conversation,
            sort="" if self.sort is Sort.OLDEST else self.sort,
            after=start or "",
        )
        return "" if told == "?" else told

    def address(self, question_id: int | None = None) -> str:
        """The URL of this queue in the inbox; with `question_id`, the question with that id is open beside the list."""
        here = reverse("inbox") if question_id is None else reverse("inbox-question", args=[question_id])
        return here + self.query()

    def of(self, item: InboxItem) -> str:
        """The URL of a row of the list: the page of a question, or the page of calls that are alike."""
        return reverse("inbox-alike" if item.folded else "inbox-question", args=[item.id]) + self.query()

    def filters(self, items: Sequence[InboxItem]) -> InboxFilters:
        """The form above the list. It offers the tools, clients and groups of the rows `items`."""
        wanted = self.wanted
        now = {
            "q": self.text,
            "queue": "" if self.name == "mine" else self.name,
            "sort": "" if self.sort is Sort.OLDEST else self.sort,
            **{name: getattr(wanted, name) for name in NARROWS},
        }
        filters = InboxFilters(now)
        groups = sorted({item.group for item in items} | {wanted.group} - {""})
        tools = sorted({item.tool_name for item in items} | {wanted.tool} - {""})
        clients = sorted({item.client for item in items} | {wanted.client} - {""})
        filters.offer("tool", "Every tool", ((tool, tool) for tool in tools))
        filters.offer("client", "Every client", ((client, client) for client in clients))
        filters.offer("kind", "Every kind", ((kind, words.name) for kind, words in WORDS.items()))
        filters.offer("risk", "Any risk", ((str(risk), f"{risk.capitalize()} risk") for risk in Risk))
        filters.offer("group", "Every group", ((group, group) for group in groups if group))
        filters.offer("age", "At any time", AGES.items())
        oldest, *others = SORTS.items()
        filters.offer("sort", oldest[1], others)
        one = [(wanted.conversation, "One conversation")] if wanted.conversation else []
        filters.offer("conversation", "Every conversation", one)
        return filters


def queue_of(request: ConsoleRequest) -> Queue:
    """The queue that the URL names. Values that cannot be understood are ignored."""
    name = query.choice(request, "queue", tuple(QUEUES)) or "mine"
    after = query.number(request, "after") or 0
    if name == "decided":
        return Queue(name, inbox.EVERYTHING, "", after)
    text = query.text(request, "q")
    wanted = InboxFilter(
        tool=query.text(request, "tool"),
        client=query.text(request, "client"),
        kind=query.choice(request, "kind", tuple(WORDS)),
        risk=query.choice(request, "risk", tuple(Risk)),
        group=query.text(request, "group"),
        age=query.choice(request, "age", tuple(AGES)),
        conversation=query.text(request, "conversation"),
        words=tuple(text.split()[:MOST_WORDS]),
    )
    sort = Sort(query.choice(request, "sort", tuple(SORTS)) or Sort.OLDEST)
    return Queue(name, wanted, text, after, sort)


def conversation(item: InboxItem) -> dict[str, object]:
    """The template context of the link to other calls of the same conversation: `conversation`, how many of them wait,
    and `of_conversation`, the query string that lists them. Empty for a question that is closed."""
    if item.state is not QuestionState.OPEN:
        return {}
    of_it = Queue("all", InboxFilter(conversation=item.public_id), "", 0)
    return {"conversation": inbox.others_of_conversation(item.task_id), "of_conversation": of_it.query()}
