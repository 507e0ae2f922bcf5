"""Sessions of MCP clients of 2025, their streams, and the outbound requests to these clients.

None of them lives in a process: each is a row, and any web process serves any of them. A question for a client goes to
one stream at a time; a new stream takes over what the old one has not delivered. Messages of a stream are not stored.

Not here: sign-ins of people (`domain.people.browser_sessions`).
"""
