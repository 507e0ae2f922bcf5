"""What TaskHub is about, one folder a subject: what it is, its records, reads and writes, its SQL beside them.

A subject may use those below it, in the order that import-linter holds (pyproject.toml): `address`, `foreign` <
`audit`, `hints` < `changes` < `rules` < `catalogue`, `oauth`, `questions`, `relays`, `workers` < `sessions`, `tasks` <
`clients` < `people` < `health`, `seeding`. In a folder, `functions.sql` has the changes that the database makes, one
function each, `statements.sql` what Python asks by name; `writes` and `reads` are their Python face. Nothing here knows
HTTP, a revision of the protocol, or a page.
"""
