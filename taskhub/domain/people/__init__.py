"""People: who signs in to the console, with which role in which tenant.

The database makes sure that a tenant keeps an admin. A browser session is stored under a digest of its cookie, and ends
if the person's password changes, the person is disabled, or loses the role.
"""
