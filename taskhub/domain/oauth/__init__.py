"""Our authorization server: for programs that act for a person who allowed it.

`applications` are the registered programs, `documents` those that a URL describes. A consent says which person allows
which program what, and ends with the person, the program or the role. The toolkit's tables hold tokens and codes as
digests only (`secrets`), which guards in the database enforce.
"""
