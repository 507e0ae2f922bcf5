"""Patience: how long a plain call waits for its result before it gets an interim result, by client and by program.

MCP programs give up a call after seconds or hours, most without announcing their time-out, and a result that comes
later is lost. So an interim result has to come before. The patience is, in this order: what an admin set for the
client; what was learned from callers of the program that left; what is known of the program; the default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.conf import settings

from taskhub.core.hints import ClientStandingChanged
from taskhub.domain.hints.announce import notify
from taskhub.lib import jsonx
from taskhub.lib.caches import ExpiringCache
from taskhub.store import statements
from taskhub.store.models.people import PATIENCE_RANGE_MS

KNOWN: Final[dict[str, float | None]] = {
    "claude-code": 100.0,
    "claude-ai": 50.0,
    "visual studio code": None,
    "codex-mcp-client": 240.0,
    "gemini-cli-mcp-client": 540.0,
    "goose": 240.0,
    "zed": 50.0,
    "opencode": 240.0,
    "cursor-vscode": 50.0,
}
"""Patience in seconds, by the lower-case `name` of `clientInfo`: below the program's time-out (docs/use/agents.md).
`None`: the program has no time-out."""
CERTAIN: Final = 2
"""How many callers must have left before the learned patience applies: a single one may have left for another
reason."""
SHORTEST_MS: Final = 1_000
"""Milliseconds. Nothing is learned from a caller that leaves sooner, since it did not wait."""
OF_LEAVING: Final = 0.8
"""The patience that is learned from a caller that left, as a share of the time it had waited."""
OF_COMING_BACK: Final = 0.6
"""The patience that is learned when a program makes the same request again, as a share of the time since the first
request. It is a smaller share because that time includes the thinking of the program's model."""
SOONEST_BACK: Final = 3.0
"""Seconds. Nothing is learned from the same request if it comes sooner: the program may want two at the same time."""
OF_ANSWERED: Final = 0.9
"""A caller counts as answered after this share of its patience: its interim result is on the way."""
LEAST_UNHEARD: Final = 4.0
"""Seconds. Calls that are made again although an interim result was given lower the patience no further than this: no
known program waits less."""
MOST_PROGRAMS: Final = 50
"""Programs of one client whose patience is kept. Beyond that one gives way: one that is not certain, else the one
learned longest ago. Some programs change their name at each start, and must not keep others from being learned."""
_CACHE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a caller waits: `seconds`, or `None` for as long as the call takes. `why` is `set`, `learned`, `known`
    or `default`."""

    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """The settings for a client's plain calls; `None` if an admin set nothing."""

    context_id: int
    patience_ms: int | None
    hub_tools: bool | None
    learned: dict[str, int] = field(default_factory=dict)
    """The learned patience that applies, in milliseconds by program."""

    def patience(self, client_info: dict[str, Any]) -> Patience:
        """The patience of the program with this `clientInfo`."""
        if self.patience_ms is not None:
            return Patience(self.patience_ms / 1_000, "set")
        program = program_of(client_info)
        if program in self.learned:
            return Patience(self.learned[program] / 1_000, "learned")
        if program in KNOWN:
            return Patience(KNOWN[program], "known")
        return Patience(settings.TASKHUB_PATIENCE_SECONDS or None, "default")

    @property
    def tools(self) -> bool:
        """Whether the hub's own tools are listed to the client."""
        return settings.TASKHUB_HUB_TOOLS if self.hub_tools is None else self.hub_tools


@dataclass(frozen=True, slots=True)
class LearnedRow:
    """What was learned about one program. It applies once callers have left early `CERTAIN` times, which `leaves`
    counts."""

    program: str
    patience_ms: int
    left_after_ms: int
    leaves: int


class _Settings(NamedTuple):
    patience_ms: int | None
    hub_tools: bool | None


_SETTINGS = statements.one("caller_settings", _Settings)
_LEARNED = statements.many("learned_patience", LearnedRow)
_LEARN = statements.maybe("learn_patience", int)
_kept: ExpiringCache[int, CallerSettings] = ExpiringCache(_CACHE_SECONDS, 10_000)


def program_of(client_info: dict[str, Any]) -> str:
    """The name under which a program's patience is kept: `name` of `clientInfo`, normalized; empty without a name."""
    name = client_info.get("name")
    return str(jsonx.repaired(name)).strip().lower()[:128] if isinstance(name, str) else ""


def cached_settings(context_id: int) -> CallerSettings | None:
    """The client's settings if this process has cached them, else `None`; never touches the database."""
    return _kept.get(context_id)


def caller_settings(context_id: int) -> CallerSettings:
    """Read and cache the settings for the client's plain calls."""
    since = _kept.since()
    found, _ = settings_and_learned(context_id)
    _kept.keep(context_id, found, since)
    return found


def settings_and_learned(context_id: int) -> tuple[CallerSettings, list[LearnedRow]]:
    """Read from the database the client's settings, and every patience that was learned for its programs, also those
    that are too uncertain to apply (`CERTAIN`)."""
    own, rows = _SETTINGS(context=context_id), learned_patience(context_id)
    learned = {row.program: row.patience_ms for row in rows if row.leaves >= CERTAIN}
    return CallerSettings(context_id, own.patience_ms, own.hub_tools, learned), rows


def learned_patience(context_id: int) -> list[LearnedRow]:
    """Every patience that was learned for the client's programs, also those that are too uncertain to apply
    (`CERTAIN`)."""
    return _LEARNED(context=context_id)


def forget_settings(context_id: int | None = None) -> None:
    """Drop the cached settings of one client, or of all clients."""
    _kept.forget(lambda found: context_id in (None, found.context_id))


def learn(
    context_id: int, client_info: dict[str, Any], left_after_ms: int, *, part: float = OF_LEAVING, certain: bool = False
) -> None:
    """Learn from a caller of this program that left after `left_after_ms`. The share `part` of that time becomes the
    program's patience: at once if `certain`, as when the program said that its time was over, else after `CERTAIN` such
    callers. A patience that applies can only be shortened by learning; an admin can lengthen it."""
    if left_after_ms < SHORTEST_MS:
        return
    low, high = PATIENCE_RANGE_MS
    changed = _LEARN(
        context=context_id,
        program=program_of(client_info),
        patience=min(max(int(left_after_ms * part), low), high),
        left_after=left_after_ms,
        leaves=CERTAIN if certain else 1,
        certain=CERTAIN,
        part=OF_LEAVING,
        most=MOST_PROGRAMS,
    )
    if changed is not None:
        notify(ClientStandingChanged(context_id))
