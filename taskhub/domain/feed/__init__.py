"""The feed: the committed events of the audit log, in the order of their positions, for consumers that must miss none.

A consumer has a row with its place in the feed: the position `(event.xid, event.id)` of the last event that it has
looked at. One transaction reads what follows, does what the consumer does with it, and moves the place. So a consumer
that was away goes on where it stopped, and what it wrote in the database it wrote once.

Not here: what is done with the events (`domain.notices`). Seals read the log by themselves (`domain.audit.seal`).
"""
