"""The worker: claims tasks into slots, runs their tools at the servers, renews leases, stores outcomes.

`engine` is one worker process: its chores, and its reaction to each hint. `claiming` claims tasks into free slots,
`running` runs one task, `servers` has the connections, `jobs` the hourly and nightly jobs.
"""
