"""What TaskHub is about, a folder for each subject: its records, reads and writes, with their SQL beside them.

A subject may use those below it, in the order that import-linter holds (pyproject.toml): `address`, `foreign` <
`audit`, `hints` < `changes` < `rules` < `catalogue`, `oauth`, `questions`, `relays`, `workers` < `sessions`, `tasks` <
`clients` < `people` < `health`, `seeding`. In a folder, `functions.sql` has the changes that the database makes, each
as one function, and `statements.sql` the SQL that Python runs by name; `writes` and `reads` are their Python face.
HTTP, revisions of the protocol and pages are not known here.
"""
