"""Rules: a tenant's ordered list of them, in versions, which says what clients see and what becomes of their calls.

A condition is in doubt for an argument that a tool could take for the condition's value, such as in another spelling. A
rule in doubt matches, unless it allows.
"""
