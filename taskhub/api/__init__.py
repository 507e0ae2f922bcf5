"""The HTTP interface for programs: `/mcp`, OAuth, health, metrics.

A request gets an id (`requests`), is checked and bounded (`guard`) and authenticated (`auth`), before `endpoint` hands
its message to `protocol`, which alone knows the revisions of MCP.
"""
