"""Rules: a tenant's ordered list of them, in versions; and which calls of a tool need an approval by its policy.

In doubt a call falls under a rule: an argument that could mean the value of a condition in another spelling meets it.
"""
