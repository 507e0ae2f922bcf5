"""The feed: the committed events of the audit log, in the order of their positions, for consumers that must not miss
any.

A consumer has a row with its place in the feed: the position `(event.xid, event.id)` of the last event that it has
looked at. One transaction reads the events that follow, does the consumer's work with them, and moves the place. So a
consumer that was away goes on where it stopped, and what it writes into the database is written once.

Not here: what consumers do with the events (`domain.notices`). Seals do not use the feed, but read the log themselves
(`domain.audit.seal`).
"""
