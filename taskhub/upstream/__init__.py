"""The MCP servers behind the hub, through the official SDK.

`pool` keeps connections, `call` makes one call and turns the answer into plain records, `catalogue` lists what a server
offers and watches for changes. Messages of servers are bounded (`bounds`) and sieved (`sieve`) before the SDK reads
them.

The records of servers in the database are in `domain.catalogue`.
"""
