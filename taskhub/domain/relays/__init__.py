"""Requests of a client that are no tool call (a read, a prompt, a completion), made by a worker while the client waits.

Rows live for seconds and are worth nothing after a crash: the tables are unlogged, nothing is on record, and a client
that leaves takes its request back. `interests` are the resources that somebody follows.
"""
