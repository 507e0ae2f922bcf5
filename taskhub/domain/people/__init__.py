"""People: who signs in to the console, with which role in which tenant.

The last admin of a tenant stays one: the database sees to it. A sign-in is found by a digest of its cookie and ends
with what it rests on: the password, the role, the person.
"""
