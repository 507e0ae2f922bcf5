"""The HTTP interface for programs: `/mcp`, OAuth, health, metrics.

A request gets an id (`requests`), is checked and bounded (`guard`) and authenticated (`auth`). Then `endpoint` passes
its message to `protocol`; only that knows the revisions of MCP.
"""
