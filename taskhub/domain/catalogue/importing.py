"""Reads a file of servers in any of the known formats."""

from __future__ import annotations

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.mcp_json import of_mcp_json
from taskhub.domain.catalogue.registry_entry import is_entry, of_entry
from taskhub.domain.catalogue.server_files import ServersFile, document_of


def read_servers(text: str, *, way: str = "", name: str = "") -> ServersFile:
    """Read an `mcp.json`, or an entry of the MCP registry. `way` and `name` are only for an entry of the registry, and
    as in `registry_entry.of_entry`. Raises `Invalid`, which says what was expected."""
    document = document_of(text)
    if is_entry(document):
        return of_entry(document, way=way, name=name)
    if way or name:
        raise Invalid("A way and a name are chosen for an entry of the registry; this is an mcp.json.")
    return of_mcp_json(document)
