"""MCP 2025-11-25, and the older 2025-06-18 and 2025-03-26, which share its sessions: streams that can be resumed,
requests to the client, and the tasks of 2025-11-25."""
