"""Sessions of MCP clients of 2025, their streams, and the requests that we make of them.

None of them lives in a process: each is a row, and any web process serves any of them. A question for a client goes to
one stream at a time; a new stream takes over what the old one has not delivered. What a stream carries is not stored.

Not here: sign-ins of people (`domain.people.browser_sessions`).
"""
