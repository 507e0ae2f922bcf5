"""A database backend: Django's Postgres with a deadline for each statement, enforced by the client."""
