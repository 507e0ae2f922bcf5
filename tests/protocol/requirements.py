"""The rules of every wire, by the families their ids begin with; `docs/dev/rules.md` is made from here by
`tools/rules.py`.

A test names the rules it proves with `@pytest.mark.req(...)`; `test_manifest.py` holds the two together.
"""

from __future__ import annotations

from typing import Final

from tests.protocol.requirements_1686 import CLIENT_ID_RULES
from tests.protocol.requirements_2025 import SESSION_RULES
from tests.protocol.requirements_2026 import STATELESS_RULES
from tests.protocol.requirements_2557 import MOUNT_RULES
from tests.protocol.requirements_auth import TOKEN_RULES
from tests.protocol.sources import Rule

FAMILIES: Final = {
    "T26": "Tasks of 2026-07-28, the extension `io.modelcontextprotocol/tasks`",
    "B26": "Base protocol and transport of 2026-07-28",
    "AU": "Authorization",
    "T25": "Tasks of 2025-11-25",
    "B25": "Sessions and transport of 2025-11-25",
    "CH": "Tasks that the client hosts, 2025-11-25",
    "T1686": "SEP-1686 as it was written",
    "T2557": "SEP-2557 as it was proposed",
}

REQUIREMENTS: Final[dict[str, Rule]] = {
    **STATELESS_RULES,
    **TOKEN_RULES,
    **SESSION_RULES,
    **CLIENT_ID_RULES,
    **MOUNT_RULES,
}

DEFERRED: Final = {
    "B26-48": (
        "The hub passes arguments on; the server behind it validates them by its own schema. Where people would be"
        " asked first, what does not fit the listed schema is answered at once."
    ),
}
"""Rules that no test proves, and why."""

NOTES: Final = {
    "AU-14": "The client's id is no part of whose a task is.",
    "B25-09": "Of every version, although 2025-03-26 knew them.",
    "B25-22": "Asked as a request here; -32042 is never sent.",
    "B26-22": "As T26-53.",
    "B26-25": "What a client does with a bad one is its own affair.",
    "B26-32": "The order is that of the Python SDK; the suite agrees with it.",
    "CH-15": "Where the session ends, the question stays open for the next one.",
    "CH-16": "The hub asks for no progress.",
    "T1686-15": "Refused for a task that has not ended.",
    "T2557-17": "A task that has ended is -32602, as in 2025-11-25.",
    "T25-25": "The code is not specified; it is -32602.",
    "T25-30": "Kept until its `ttl` is over.",
    "T26-36": "One that does not fit is refused with a pointer, where the text allows to ignore it.",
    "T26-44": "It travels as HTTP 500.",
    "T26-46": "Not here; the number of streams is.",
    "T26-53": "A missing `Mcp-Name` on `tasks/*` is borne: published clients send none.",
}
"""Where the text leaves a choice, or we knowingly differ from it: what we do."""
