"""How long the caller of a plain call waits before it is given an interim result: by client and by program.

Programs give a call up after seconds or hours, most without saying after how many. A result that comes too late reaches
nobody, so an interim one has to come before. What counts, in this order: what an admin set for the client; what was
learned from callers of the program that left; what is known of the program; the default.
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
"""Seconds by the lower-case `name` of `clientInfo`, below the limit of the program (docs/use/agents.md); `None`: it has
none."""
CERTAIN: Final = 2
"""Callers that left must have been so many before their patience counts: one may have had another reason to leave."""
SHORTEST_MS: Final = 1_000
"""Who leaves sooner has not waited at all."""
OF_LEAVING: Final = 0.8
"""The part of the time after which callers left that is waited from then on."""
OF_COMING_BACK: Final = 0.6
"""The part where a program made the same request again: its model has thought meanwhile."""
SOONEST_BACK: Final = 3.0
"""Seconds. Who makes the same request sooner may want two at the same time."""
OF_ANSWERED: Final = 0.9
"""The part of its patience after which a caller counts as answered: its interim result is on the way."""
LEAST_UNHEARD: Final = 4.0
"""Seconds, to which patience goes down because interim results went unheard: no program is known that waits less."""
MOST_PROGRAMS: Final = 50
"""Programs of one client of which something is known; the one learned first gives way. Some name themselves anew at
each start, or by the hub's address, and must not keep others from being learned."""
_CACHE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """`seconds` is `None` where the caller waits for as long as it takes; `why` is `set`, `learned`, `known` or
    `default`."""

    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """What holds for the plain calls of a client."""

    context_id: int
    patience_ms: int | None
    hub_tools: bool | None
    learned: dict[str, int] = field(default_factory=dict)
    """Milliseconds by program."""

    def patience(self, client_info: dict[str, Any]) -> Patience:
        """Of a program that names itself so."""
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
        """Whether the client is listed the hub's own tools."""
        return settings.TASKHUB_HUB_TOOLS if self.hub_tools is None else self.hub_tools


@dataclass(frozen=True, slots=True)
class LearnedRow:
    """What is on record of a program, in force or not yet."""

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
    """The name by which a program's patience is kept."""
    name = client_info.get("name")
    return str(jsonx.repaired(name)).strip().lower()[:128] if isinstance(name, str) else ""


def cached_settings(context_id: int) -> CallerSettings | None:
    """As `caller_settings` if it is known here; never touches the database."""
    return _kept.get(context_id)


def caller_settings(context_id: int) -> CallerSettings:
    """What holds for the plain calls of this client."""
    since = _kept.since()
    found, _ = settings_and_learned(context_id)
    _kept.keep(context_id, found, since)
    return found


def settings_and_learned(context_id: int) -> tuple[CallerSettings, list[LearnedRow]]:
    """As `caller_settings`, always read anew, with all that is on record of the client's programs."""
    own, rows = _SETTINGS(context=context_id), learned_patience(context_id)
    learned = {row.program: row.patience_ms for row in rows if row.leaves >= CERTAIN}
    return CallerSettings(context_id, own.patience_ms, own.hub_tools, learned), rows


def learned_patience(context_id: int) -> list[LearnedRow]:
    """What is on record of the client's programs, by name."""
    return _LEARNED(context=context_id)


def forget_settings(context_id: int | None = None) -> None:
    """Drop what is cached, of one client or of all."""
    _kept.forget(lambda found: context_id in (None, found.context_id))


def learn(
    context_id: int, client_info: dict[str, Any], left_after_ms: int, *, part: float = OF_LEAVING, certain: bool = False
) -> None:
    """A caller of this program left so long after its call, and that `part` of it is waited from now on. `certain`: the
    program said that its time was over. Patience only gets shorter so; an admin makes it longer."""
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
