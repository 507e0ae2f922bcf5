"""Rules: each tenant has an ordered list of them, in versions. They say what clients see and what becomes of their
calls.

A condition is in doubt if a tool could take the argument for the condition's value, such as a text in another spelling.
A rule that is in doubt matches, unless it allows.
"""
