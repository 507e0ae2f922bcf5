"""People: who signs in to the console, with which role in which tenant.

The database makes sure that a tenant keeps an admin. A browser session is stored under a digest of its cookie, and ends
when the person's password changes, or when the person is disabled or loses the role.
"""
