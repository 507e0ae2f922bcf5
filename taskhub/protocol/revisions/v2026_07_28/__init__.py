"""MCP 2026-07-28: there are no sessions, so each request carries everything in `_meta`. A call is answered with the
questions to its client, and the client makes the call again with the answers."""

from typing import Final

from taskhub.core.versions import Version

VERSION: Final = Version.MCP_2026_07_28
