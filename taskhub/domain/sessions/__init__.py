"""Sessions of MCP clients of 2025, their streams, and the outbound requests to these clients.

Each of them is a row in the database, so that any web process can serve it. Each outbound request is on one stream at a
time; a new stream takes over the requests that the old stream has not delivered yet. Other messages
are not stored.

Not here: sign-ins of people (`domain.people.browser_sessions`).
"""
