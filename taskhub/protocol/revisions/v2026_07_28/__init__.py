"""MCP 2026-07-28: no session, each request says everything, questions come as rounds."""
