"""Relays: a client's reads, prompts and completions, which a worker requests from the server while the client waits.

A row lives for seconds and is worth nothing after a crash: the tables are unlogged, the audit log has no events of
relays, and the row of a client that leaves is deleted. `interests` are the resources that streams follow.
"""
