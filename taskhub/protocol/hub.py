"""What the protocol needs from the process it runs in: lanes, keys, hints, limits."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from taskhub.core.errors import LimitReached, TaskHubError
from taskhub.core.hints import STANDING
from taskhub.core.records import Actor, Created, NewTask, Principal, Session, TaskRecord
from taskhub.core.rules import Client, Verdict
from taskhub.domain.catalogue.view import Catalogue, cached_catalogue, catalogue
from taskhub.domain.sessions.reads import live_sessions
from taskhub.domain.tasks.create import create_tasks
from taskhub.domain.tasks.reads import Reads, owned_tasks, tasks_by_id
from taskhub.lib.batches import Batches
from taskhub.lib.buckets import Buckets
from taskhub.lib.caches import ExpiringCache
from taskhub.lib.lanes import Lanes
from taskhub.lib.networks import network
from taskhub.lib.schemas import Checker
from taskhub.lib.signing import Signer
from taskhub.protocol.rule_time import RuleTime

RECORDED_SECONDS: Final = 60.0
"""A verdict that denied a call, or that rules on trial would give, is recorded at most once in this many seconds for
each client and tool."""
MOST_LATER: Final = 10_000
"""The most pieces of work that wait in `Hub.later`, in one process."""

REMEMBERED: Final = 4_096
"""How many rings one process remembers, with their topics."""


class Bell(asyncio.Event):
    """An event that a ring sets. It also knows which topics rang, for callers that watch several."""

    def __init__(self) -> None:
        super().__init__()
        self._rung: set[str] = set()

    def ring(self, topic: str) -> None:
        """Record that `topic` has news, and wake the waiter."""
        self._rung.add(topic)
        self.set()

    def take(self) -> set[str]:
        """The topics that rang since the last call."""
        rung, self._rung = self._rung, set()
        return rung


class Hints:
    """The requests of this process that wait for news, by topic. A ring says "look again", never what is new. When the
    listener has reconnected, all topics are rung, since hints may have been lost."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[Bell]] = defaultdict(set)
        self._rung: deque[str] = deque(maxlen=REMEMBERED)
        self._rings = 0

    @contextmanager
    def watch(self, *topics: str, bell: Bell | None = None) -> Iterator[Bell]:
        """A bell that is rung whenever one of the topics (see `core.hints`) has news. With `bell`, that bell watches
        these topics too. Watch first, then read: then no change can be missed."""
        bell = bell or Bell()
        for topic in topics:
            self._waiting[topic].add(bell)
        try:
            yield bell
        finally:
            for topic in topics:
                self._waiting[topic].discard(bell)
                if not self._waiting[topic]:
                    del self._waiting[topic]

    def ring(self, topic: str) -> None:
        """Ring all bells that watch `topic`."""
        self._rings += 1
        self._rung.append(topic)
        for bell in self._waiting.get(topic, ()):
            bell.ring(topic)

    def ring_all(self, *, lost: bool = False) -> None:
        """Ring all waiters with `STANDING`, so that each checks whether its client may still wait. `lost`: hints of any
        topic may have been lost, so ring every watched topic too."""
        if lost:
            self._rings += REMEMBERED  # the lost hints may have been of any topic
        for topic, bells in self._waiting.items():
            for bell in bells:
                bell.ring(STANDING)
                if lost:
                    bell.ring(topic)

    def now(self) -> int:
        """The present moment, as a number of rings, for `rung_since`."""
        return self._rings

    def rung_since(self, moment: int, topic: str) -> bool:
        """Whether `topic` may have rung since `moment`. If not, a caller that watches it from now on may rely on what
        was read at that moment."""
        rings = self._rings - moment
        return rings >= REMEMBERED or topic in islice(reversed(self._rung), rings)

    def watched(self, topic: str) -> bool:
        """Whether a request waits for the topic."""
        return topic in self._waiting


class KeptPages:
    """Encoded pages of lists. They depend on nothing but the catalogue, and are dropped when it changes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, int, int], tuple[Catalogue, bytes]] = {}

    def page(self, version: str, name: str, of: Catalogue, start: int, encode: Callable[[], bytes]) -> bytes:
        """The page of the list `name` that starts at `start`; made by `encode` if it is not kept yet."""
        key = (version, name, of.tenant_id, start)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not of:
            # Kept with the catalogue it was made from, so that a new catalogue never gets an old page.
            kept = self._kept[key] = (of, encode())
        return kept[1]

    def clear(self) -> None:
        """Drop all pages."""
        self._kept.clear()


def client_of(principal: Principal) -> Client:
    """The client, as rules see it."""
    return Client(
        principal.context_id,
        principal.name,
        principal.issuer,
        principal.subject,
        principal.client_id,
        principal.scopes,
        principal.person,
    )


@dataclass
class RunInPlace:
    """A call that this process runs. `ended`: the task with its result, once the result is stored; `None` before that,
    and if the call ended in any other way. When the run is over, the topics of the task ring in this process."""

    ended: TaskRecord | None = None


class InPlace(Protocol):
    """Runs calls in this process, without the queue. The class is in `worker.in_place`, which this room may not
    import."""

    async def create(
        self, new: NewTask, creating: Callable[[NewTask], Awaitable[Created]]
    ) -> tuple[Created, RunInPlace | None]:
        """The task that `creating` makes of the call, and its run in this process; `None` if the call goes through the
        queue. A task that was made is run, even if the caller is cancelled meanwhile."""


@dataclass
class Hub:
    """The state that the protocol shares in one web process."""

    lanes: Lanes
    signer: Signer
    server_info: Mapping[str, str]
    inline_wait_seconds: float
    versions: tuple[str, ...]
    """The versions that `/mcp` serves, newest first."""
    leave_seconds: float = 20.0
    """Seconds for which a call goes on after its caller left, so that the same call can join it."""
    address: str = ""
    """The address of the console for people; if it is empty, the address that the client used."""
    profiles: frozenset[str] = frozenset()
    """The profiles that are switched on (`registry.PROFILES`)."""
    mounts: frozenset[str] = frozenset()
    """The mounts that are switched on."""
    shown: Callable[[TaskRecord], Mapping[str, object] | None] = lambda task: None
    """Returns a task as its own revision shows it. It is `registry.shown`, passed in because `registry` imports this
    module."""
    served: Callable[[str, str, float], None] = lambda method, version, seconds: None
    """Called for each request that was answered, with its method, its version and the seconds that it took. Method and
    version are always known names."""
    failed: Callable[[int], None] = lambda code: None
    """Called with the code of each answer that was an error."""
    requests: Buckets | None = None
    """Limits how many requests each client sends in a second."""
    received: Buckets | None = None
    """Limits how many bytes of requests each client sends in a second."""
    hints: Hints = field(default_factory=Hints)
    in_place: InPlace | None = None
    """Runs plain calls in this process; `None` if all calls go through the queue."""
    schemas: Checker = field(default_factory=Checker)
    """Checks the arguments of calls that need an approval, before people are asked."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: dict[int, int] = field(default_factory=dict)
    waits: Counter[int] = field(default_factory=Counter)
    """How many requests of each client wait for a decision (`protocol.approvals`)."""
    told: dict[str, int] = field(default_factory=dict)
    """By public id of a task, the version of it that streams of this process sent last. `push.listener` compares these
    with the database now and then, because a hint may be lost."""
    reauth_limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    """When all streams are rung together, limits how many of them check at a time whether they may stay, so that calls
    are not held up."""
    polled: dict[int, float] = field(default_factory=dict)
    """When tasks were last polled, by task id, to be stored in batches."""
    seen: dict[int, float] = field(default_factory=dict)
    """When sessions were last used, by session id, to be stored in batches."""
    outcomes: Reads = field(default_factory=Reads)
    """The clients that were given the result of a task, to be stored in batches."""
    reads: Batches[tuple[int, str], TaskRecord | None] = field(init=False)
    """Batched calls of `domain.tasks.reads.owned_task`, by context id and public id."""
    tasks: Batches[int, TaskRecord | None] = field(init=False)
    """Batched calls of `domain.tasks.reads.task_by_id`, for waiters that have checked the owner."""
    sessions: Batches[tuple[str, int], Session | None] = field(init=False)
    """Batched calls of `domain.sessions.reads.live_sessions`, by session id and context id."""
    creations: Batches[tuple[NewTask, Actor], Created] = field(init=False)
    """Batched calls of `domain.tasks.create.create_task`."""
    pages: KeptPages = field(default_factory=KeptPages)
    rule_time: RuleTime = field(default_factory=RuleTime)
    """Lets rules decide in short turns, so that no rule holds up the other work of this process."""
    recorded: ExpiringCache[tuple[int, int, Verdict], bool] = field(
        default_factory=lambda: ExpiringCache(RECORDED_SECONDS, most=10_000)
    )
    """The verdicts that were recorded lately, by client and tool."""
    refused: ExpiringCache[tuple[str, str], bool] = field(
        default_factory=lambda: ExpiringCache(RECORDED_SECONDS, most=10_000)
    )
    """The refusals of permits that were recorded lately, by permit and reason."""
    _later: set[asyncio.Task[None]] = field(default_factory=set)
    _serving: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def serving(self, task_id: int) -> Iterator[None]:
        """Within the block this process serves a stream whose caller waits for the task."""
        self._serving[task_id] += 1
        try:
            yield
        finally:
            self._serving[task_id] -= 1
            if not self._serving[task_id]:
                del self._serving[task_id]

    def serves(self, task_id: int) -> bool:
        """Whether this process serves a stream whose caller waits for the task."""
        return task_id in self._serving

    def later(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` after `seconds`. The work is dropped if this process ends before, or if `MOST_LATER` pieces of work
        wait already."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            with suppress(TaskHubError):
                await work()

        if len(self._later) < MOST_LATER:
            task = asyncio.create_task(wait())
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    def admit(self, principal: Principal, address: str, size: int) -> None:
        """Count a request of `size` bytes. Raises `LimitReached` if its client exceeds its rates. Callers without a
        token share one context, so they are counted by network."""
        client: Hashable = principal.context_id
        if principal.anonymous:
            client = (principal.context_id, network(address))
        for rates, amount, what in ((self.requests, 1, "requests"), (self.received, size, "bytes")):
            if rates is not None and (wait := rates.take(client, amount)):
                raise LimitReached(f"This client sends more {what} than it may", retry_after=math.ceil(wait))

    async def catalogue(self, principal: Principal) -> Catalogue:
        """The tools, prompts and resources that the client may see; no query while the cache is warm."""
        known = cached_catalogue(principal.tenant_id)
        if known is None:
            known = await self.lanes.run(catalogue, principal.tenant_id)
        client = client_of(principal)
        seen = known.seen_before(client)
        return seen if seen is not None else await self.rule_time.run(principal.tenant_id, known.seeing(client))

    def brought(self, task: TaskRecord, context_id: int) -> None:
        """Note, for the counts by client, that this client is given the task's result or error, if there is one."""
        if task.result_json is not None or task.error_json is not None:
            self.outcomes.note(task.id, context_id)

    def __post_init__(self) -> None:
        """Make the batches, which run in the hub's lanes."""
        self.reads = Batches(self.lanes, owned_tasks)
        self.tasks = Batches(self.lanes, tasks_by_id)
        self.sessions = Batches(self.lanes, live_sessions)
        self.creations = Batches(self.lanes, create_tasks)
