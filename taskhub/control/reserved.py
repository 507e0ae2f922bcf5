"""Servers that only a file of configuration changes."""

from __future__ import annotations

from taskhub.control.caller import Caller
from taskhub.core.errors import Refused
from taskhub.domain.catalogue import reads


def refuse_reserved(by: Caller, *, server_id: int | None = None, tool_id: int | None = None) -> None:
    """Raise `Refused` if only a file of configuration changes this server (or the server of this tool), and `by` is a
    person. A shell may change it, because it has the file too."""
    if by.person is None or by.for_file:
        return
    if name := reads.left_to_file(by.tenant_id, server_id=server_id, tool_id=tool_id):
        raise Refused(
            f"{name} is left to a file of configuration, which would change it back. Change it there, or take it out of"
            " the hands of the file on its page.",
            by_file=True,
        )
