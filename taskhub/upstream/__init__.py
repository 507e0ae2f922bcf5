"""The MCP servers behind the hub, through the official SDK.

`pool` keeps connections, `call` makes one call and turns what comes back into plain records, `catalogue` lists and
watches. What servers send is bounded (`bounds`) and sieved (`sieve`) before the SDK reads it.

Not here: what is stored of a server (`domain.catalogue`), and who may call it.
"""
