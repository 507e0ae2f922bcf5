"""One folder per protocol revision. In each, `methods` checks requests and ends with the `Revision`, which has the
table of methods, and `tasks` serves `tasks/*`. Revisions never import each other, so deleting a folder deletes the
revision. Code that they share is in `protocol.wire`, or in `protocol.stateless` for those without sessions."""
