"""The parts of MCP that are the same in all revisions.

A part is here if one revision took it from another: the words for a task's status, which 2025-11-25 took from SEP-1686
and later revisions kept; the first members of a `Task`; pages of lists and their cursors; definitions under the names
that the hub exposes; the digests that show that a list has changed.

- `tasks`: a task's status, its first members, the questions that the client may answer.
- `lists`: pages of lists: their cursors, and the lists of the catalogue.
- `page_links`: the request that a client opens a page of the console for its user.

Parts that only the revisions without sessions share, such as `resultType`, are in `protocol.stateless`, which may
import this package; this package never imports `protocol.stateless`. How a call is made and waited for is in the
modules beside these packages: `calls`, `relays`, `lines`.

Code that merely looks alike does not belong here. The next revision will differ in something: its differences go into
its own folder, on top of this package or instead of it. Nothing here depends on which revision uses it: differences are
passed in as arguments. No revision is imported, so deleting one never touches this package.
"""
