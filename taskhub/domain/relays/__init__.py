"""Requests of a client other than tool calls (a read, a prompt, a completion), made by a worker while the client waits.

Rows live for seconds and are worth nothing after a crash: the tables are unlogged, nothing is on record, and the row of
a client that leaves is deleted. `interests` are the resources that streams follow.
"""
