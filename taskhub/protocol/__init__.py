"""The protocol between clients and the hub: JSON-RPC, the table of methods, and one folder for each revision of MCP.

`dispatch` reads a message, finds its revision (`registry`) and calls its method. Code for calls, lists and streams that
all revisions share is in the modules beside it. The package knows nothing of HTTP but headers and statuses, and reaches
the database only through `domain`.
"""
