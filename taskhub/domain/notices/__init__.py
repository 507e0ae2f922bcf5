"""Notices: news of events for receivers outside of the hub, in an outbox until it is delivered.

A worker reads the feed (`domain.feed`) and queues a notice for each receiver that wants an event (`queueing`); then it
takes notices that are due under a lease, delivers them, and stores what came of it (`outbox`). Each notice is delivered
at least once, with the same id every time. Webhooks, their addresses, secrets and kinds of news are `webhooks`. News
for people is `people`, which queues, gathers and takes it on every one of the `channels`; what a person wants is
`choices`, and where they are reached `addresses`.

Not here: how a channel delivers (the room `notify`), and who may change receivers (`control.webhooks`,
`control.notifications`).
"""
