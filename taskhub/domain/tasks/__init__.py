"""Tasks: a tool call as a durable row, from its creation to its purge.

queued -> working -> finished | faulted | cancelled, with input_required in between; docs/dev/state-machine.md has the
transitions, which triggers guard. Only the worker that holds the lease, with its epoch, may change a running task.
Every change is one function in an SQL file beside this one, and one round trip: lock the row, check, change, record.
`create`, `run` (claim, finish, fault, ask, release), `cancel`, `sweep` (lost leases, overdue questions, purge) and
`rerun` (with `ended`, which calls can run again) call these functions.

A result is never lost once it is stored, and a tool that may not run twice never does.
"""
