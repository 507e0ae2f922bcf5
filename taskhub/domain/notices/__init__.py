"""Notices: news of events for receivers outside of the hub. A notice is in the outbox until it is delivered or has
failed.

A worker reads the feed (`domain.feed`) and queues a notice for each receiver that wants an event (`queueing`); then it
takes notices that are due under a lease, delivers them, and stores what came of each delivery (`outbox`). Each notice
is delivered at least once, with the same id every time. Webhooks, their addresses, secrets and kinds of news are
`webhooks`. News for people is in `people`, which queues it, gathers it and takes it, for every one of the `channels`.
What a person wants is in `choices`, where they are reached in `addresses`.

Not here: how a channel delivers (the room `notify`), and who may change receivers (`control.webhooks`,
`control.notifications`).
"""
