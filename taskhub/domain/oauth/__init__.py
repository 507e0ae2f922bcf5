"""The hub's OAuth authorization server, for programs that act for a person with that person's consent.

`applications` are the registered programs, `documents` those that a URL describes. A consent says which person allows
which program what, and ends with the person, the program or the role. Tokens and codes are stored as digests only, in
the tables of django-oauth-toolkit ("the toolkit"); constraints in the database enforce that.
"""
