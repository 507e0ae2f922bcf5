"""What clients speak: JSON-RPC, the table of methods, and one folder for each revision of MCP.

`dispatch` reads a message, finds its revision (`registry`) and calls its method. What calls, lists and streams of all
revisions share is beside it. Nothing here knows HTTP beyond headers and a status, or the database beyond `domain`.
"""
