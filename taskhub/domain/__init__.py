"""The domain: a folder for each subject, with its records, reads and writes and their SQL.

A subject may import the subjects before it in this order, which import-linter checks (pyproject.toml): `address`,
`foreign` < `audit`, `feed`, `hints` < `changes` < `rules` < `catalogue`, `oauth`, `permits`, `questions`, `relays`,
`workers` < `sessions`, `tasks` < `credentials` < `clients` < `notices` < `people` < `health`, `seeding` <
`configuration`. In a
folder, `functions.sql` holds database functions, mostly one for each change, and `statements.sql` the SQL that Python
runs by name; the modules `writes` and `reads` call them. Revisions of the protocol and pages of the console are in
other packages.
"""
