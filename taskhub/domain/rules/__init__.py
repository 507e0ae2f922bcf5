"""Rules: a tenant's ordered list of them, in versions; and which calls of a tool need an approval by its policy.

A condition is in doubt for an argument that a tool could take for the condition's value, such as in another spelling. A
rule in doubt matches, unless it allows.
"""
