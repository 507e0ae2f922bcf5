"""What all revisions say the same way, said once.

A rule stands here when every revision has it from the same source: the words for a task's status, which 2025-11-25
took from SEP-1686 and the later ones kept; the members a `Task` begins with; pages of a list and the cursors between
them; a definition under the name we expose; the signs that a list changed.

- `tasks`: a task's status, its first members, the questions that the client may answer.
- `lists`: pages of lists: their cursors, and the lists of the catalogue.

What only the wires without sessions share, `resultType` and what comes with it, is in `protocol.stateless`, which
may use this and not the other way round. How a call is made and waited for is in the modules beside these packages:
`calls`, `relays`, `lines`.

This is no place for what merely looks alike. The published revisions will not change any more, but the next one will
differ in something: what it says otherwise stays in its folder, on top of what is here or instead of it. Nothing here
asks which revision it works for; what differs is handed in. Deleting a revision never touches this package,
and no revision is imported.
"""
