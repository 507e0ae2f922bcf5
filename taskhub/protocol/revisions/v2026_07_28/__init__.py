"""MCP 2026-07-28: no session, each request says everything. Questions are results, and the call is made again with
answers."""

from typing import Final

from taskhub.core.versions import Version

VERSION: Final = Version.MCP_2026_07_28
