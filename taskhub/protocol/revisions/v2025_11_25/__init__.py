"""MCP 2025-11-25, and by its sessions 2025-06-18 and 2025-03-26: sessions, streams that can be taken up again, requests
made of the client, and tasks as they were in that revision.
"""
