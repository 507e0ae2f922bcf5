"""Tasks: a tool call as a durable row, from its creation to its purge.

queued -> working -> finished | faulted | cancelled, with input_required in between; what may follow what stands in
docs/dev/state-machine.md and is guarded by triggers. Whoever holds the lease with its epoch may change a task that
runs, nobody else. Every change is one function in `functions.sql` or `claims.sql` and one round trip: lock the row,
check, change, record. `create`, `run` (claim, finish, fault, ask, release), `cancel`, `sweep` (leases that ran out,
answers that are due, purge) and `rerun` are their Python face.

A finished result is never lost once it is stored, and a tool that may not run twice never does.
"""
