"""The hub's OAuth authorization server, for programs that act for a person with that person's consent.

`applications` has the registered programs, `documents` reads the documents by which other programs describe themselves.
A consent says which scopes a person allows a program. It ends with the person, the program or the person's role. Tokens
and codes are stored as digests only, in the tables of django-oauth-toolkit ("the toolkit"); constraints in the database
enforce that.
"""
