"""The worker: claims tasks into slots, runs their tools at the servers, keeps leases, stores outcomes.

`engine` is one process of it: its loops, and what each hint wakes. `claiming` fills the slots, `running` has one task
in hand, `servers` the connections, `jobs` the chores of every hour and night.
"""
