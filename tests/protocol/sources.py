"""Where the rules stand, by the name of the page; and what a rule is."""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """One sentence in our own words, and the address of the text it is taken from."""

    sentence: str
    source: str


def rules(source: str, sentences: dict[str, str]) -> dict[str, Rule]:
    """Rules of one page, by their ids."""
    return {rule: Rule(sentence, source) for rule, sentence in sentences.items()}


_GITHUB: Final = "https://github.com/modelcontextprotocol"
_SITE: Final = "https://modelcontextprotocol.io"
_2025: Final = f"{_SITE}/specification/2025-11-25"
_2026: Final = f"{_SITE}/specification/2026-07-28"

CONF: Final = f"{_GITHUB}/conformance"
"""The official suite: what its server scenarios ask beyond the text."""
EXT: Final = f"{_GITHUB}/ext-tasks/blob/main/specification/2026-07-28/tasks.md"
S1686: Final = f"{_SITE}/seps/1686-tasks"
S2557: Final = f"{_GITHUB}/modelcontextprotocol/pull/2557"
"""The proposal as it was discussed; its text was never published."""
S2663: Final = f"{_SITE}/seps/2663-tasks-extension"

AUTH26: Final = f"{_2026}/basic/authorization"
BASE26: Final = f"{_2026}/basic"
CACHING26: Final = f"{_2026}/server/utilities/caching"
CANCEL26: Final = f"{_2026}/basic/patterns/cancellation"
CHANGES26: Final = f"{_2026}/changelog"
COMPLETE26: Final = f"{_2026}/server/utilities/completion"
DISCOVER26: Final = f"{_2026}/server/discover"
ELICIT26: Final = f"{_2026}/client/elicitation"
HTTP26: Final = f"{_2026}/basic/transports/streamable-http"
LISTEN26: Final = f"{_2026}/basic/patterns/subscriptions"
LOGGING26: Final = f"{_2026}/server/utilities/logging"
MRTR26: Final = f"{_2026}/basic/patterns/mrtr"
PAGES26: Final = f"{_2026}/server/utilities/pagination"
PROGRESS26: Final = f"{_2026}/basic/patterns/progress"
REGISTER26: Final = f"{_2026}/basic/authorization/client-registration"
RESOURCES26: Final = f"{_2026}/server/resources"
SCHEMA26: Final = f"{_2026}/schema"
TOOLS26: Final = f"{_2026}/server/tools"
VERSION26: Final = f"{_2026}/basic/versioning"

BASE25: Final = f"{_2025}/basic"
CANCEL25: Final = f"{_2025}/basic/utilities/cancellation"
ELICIT25: Final = f"{_2025}/client/elicitation"
HTTP25: Final = f"{_2025}/basic/transports"
LIFE25: Final = f"{_2025}/basic/lifecycle"
LOGGING25: Final = f"{_2025}/server/utilities/logging"
PAGES25: Final = f"{_2025}/server/utilities/pagination"
PING25: Final = f"{_2025}/basic/utilities/ping"
PROGRESS25: Final = f"{_2025}/basic/utilities/progress"
RESOURCES25: Final = f"{_2025}/server/resources"
SECURITY25: Final = f"{_SITE}/docs/2025-11-25/tutorials/security/security_best_practices"
TASKS25: Final = f"{_2025}/basic/utilities/tasks"
TOOLS25: Final = f"{_2025}/server/tools"
