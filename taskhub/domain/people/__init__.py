"""People: who signs in to the console, with which role in which tenant.

The database makes sure that a tenant keeps an admin. A sign-in is found by a digest of its cookie, and ends when the
password, the role or the person that it depends on changes or ends.
"""
