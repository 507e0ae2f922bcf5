"""Rules: which calls of a tool need an approval, by conditions on their arguments.

In doubt a call falls under a rule: an argument that could mean the value of a condition in another spelling meets it.
"""
