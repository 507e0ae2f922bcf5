"""The protocol between clients and the hub: JSON-RPC, the table of methods, and one folder for each revision of MCP.

`dispatch` reads a message, finds its revision (`registry`) and calls its method. The other modules are code for calls,
lists and streams that all revisions share. Of HTTP, the package uses only headers and statuses; it reaches the database
only through `domain`.
"""
