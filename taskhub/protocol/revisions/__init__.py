"""One folder per protocol revision: `wire` (shapes), `mapping` (record to wire), `methods` (its
rows of the table). Revisions never import each other: deleting a folder deletes the revision.
What they do alike stands in `protocol.wire`, or in `protocol.stateless` for those without sessions."""
