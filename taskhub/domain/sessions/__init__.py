"""Sessions of MCP clients of 2025, their streams, and the outbound requests to these clients.

Each of them is a row in the database, so that any web process can serve it. A question for a client goes to one stream
at a time; a new stream takes over those that the old one has not delivered. Messages of a stream are not stored.

Not here: sign-ins of people (`domain.people.browser_sessions`).
"""
