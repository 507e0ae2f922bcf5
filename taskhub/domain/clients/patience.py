"""Patience: how long a plain call waits for its result before it gets an interim result, by client and by program.

MCP programs give up a call after seconds or hours, most without announcing their time-out, and a result that comes
later is lost. So an interim result has to come before. The patience is the first of these that there is: what an admin
set for the client; what was learned from callers of the program that left; what is known of the program; the default.
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
"""How many callers must have left before the learned patience applies, because a single caller may have left for
another reason."""
SHORTEST_MS: Final = 1_000
"""Least milliseconds that a caller must have waited. Nothing is learned from a caller that leaves sooner."""
OF_LEAVING: Final = 0.8
"""The patience that is learned from a caller that left, as a share of the time it had waited."""
OF_COMING_BACK: Final = 0.6
"""The patience that is learned when a program makes the same request again, as a share of the time since the first
request. This share is smaller than `OF_LEAVING`, because that time includes the time in which the program's model
thinks."""
SOONEST_BACK: Final = 3.0
"""Least seconds between two equal requests. Nothing is learned from a second request that comes sooner: the program may
want both at the same time."""
OF_ANSWERED: Final = 0.9
"""The share of its patience after which a caller counts as answered, because its interim result is on the way."""
LEAST_UNHEARD: Final = 4.0
"""The least patience in seconds that is learned from calls that are made again although an interim result was given. No
known program waits for less."""
MOST_PROGRAMS: Final = 50
"""The most programs of one client whose patience is kept. If there are more, a program is forgotten: one whose patience
is not certain, otherwise the one that was learned longest ago. So programs that change their name at each start do not
keep the hub from learning about others."""
_CACHE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a caller waits: `seconds`, or `None` for as long as the call takes. `why` is `set`, `learned`, `known`
    or `default`."""

    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """The settings for a client's plain calls. `patience_ms` and `hub_tools` are `None` if an admin did not set
    them."""

    context_id: int
    patience_ms: int | None
    hub_tools: bool | None
    learned: dict[str, int] = field(default_factory=dict)
    """The learned patience in milliseconds, by program, as far as it is certain enough to apply."""

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
    """The patience that was learned for one program. `left_after_ms`: how long the caller waited from which it was
    learned last. `leaves`: how many callers have left, where one whose program said so counts as `CERTAIN`. The
    patience applies once `leaves` is at least `CERTAIN`."""

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
    """The name under which a program's patience is kept: `name` of `clientInfo`, normalized; empty if the program gives
    no name."""
    name = client_info.get("name")
    return str(jsonx.repaired(name)).strip().lower()[:128] if isinstance(name, str) else ""


def cached_settings(context_id: int) -> CallerSettings | None:
    """The client's settings if this process has cached them, otherwise `None`. Never touches the database."""
    return _kept.get(context_id)


def caller_settings(context_id: int) -> CallerSettings:
    """Read and cache the settings for the client's plain calls."""
    since = _kept.since()
    found, _ = settings_and_learned(context_id)
    _kept.keep(context_id, found, since)
    return found


def settings_and_learned(context_id: int) -> tuple[CallerSettings, list[LearnedRow]]:
    """Read the client's settings from the database, and what was learned for each of its programs, even if it is too
    uncertain to apply (`CERTAIN`)."""
    own, rows = _SETTINGS(context=context_id), learned_patience(context_id)
    learned = {row.program: row.patience_ms for row in rows if row.leaves >= CERTAIN}
    return CallerSettings(context_id, own.patience_ms, own.hub_tools, learned), rows


def learned_patience(context_id: int) -> list[LearnedRow]:
    """What was learned for each of the client's programs, even if it is too uncertain to apply (`CERTAIN`)."""
    return _LEARNED(context=context_id)


def forget_settings(context_id: int | None = None) -> None:
    """Drop the cached settings of one client, or of all clients."""
    _kept.forget(lambda found: context_id in (None, found.context_id))


def learn(
    context_id: int, client_info: dict[str, Any], left_after_ms: int, *, part: float = OF_LEAVING, certain: bool = False
) -> None:
    """Learn from a caller of this program that left after `left_after_ms`. The share `part` of that time becomes the
    program's patience: at once if `certain`, such as when the program said that its time was over; otherwise after
    `CERTAIN` such callers. A patience that applies can only be shortened by learning; an admin can lengthen it."""
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
