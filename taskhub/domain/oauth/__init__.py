"""Our authorization server: programs that act for a person who allowed it.

`applications` are the registered programs and `documents` those that a URL describes; a consent says which person let
which program do what, and ends with the person, the program or the role. Tokens and codes lie in the toolkit's tables,
as digests alone (`secrets`); guards in the database see to that.
"""
