"""One folder per protocol revision. Each has `methods`, which checks its requests and ends in its `Revision` with the
table of methods, and `tasks`, which serves `tasks/*`. Revisions never import each other: deleting a folder deletes the
revision. What they do alike is in `protocol.wire`, or in `protocol.stateless` for those without sessions."""
