"""When a call needs an approval: conditions over its arguments.

A call is outside a rule only if it surely is: where an argument could mean the same in another spelling, the answer is
yes.
"""
