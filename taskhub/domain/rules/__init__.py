"""Which calls need an approval: conditions on their arguments.

A call does not fall under a rule only if that is certain: where an argument could mean the value in another spelling,
the call falls under it.
"""
