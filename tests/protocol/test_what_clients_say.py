"""What a client says of itself, and of the tool that it calls, on every wire of plain calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.test_plain_calls import WIRES
from tests.support.client import Client
from tests.support.hub import RunningHub
from tests.support.session import SessionClient


@pytest.mark.parametrize("version", WIRES[1:])
@pytest.mark.parametrize("name", [{}, [], ["echo"], 5, None])
def test_a_name_that_is_no_string_is_an_invalid_parameter(hub: RunningHub, version: str, name: Any) -> None:
    with SessionClient(hub.base, hub.tokens["agent-a"], version=version) as session:
        assert session.call("tools/call", {"name": name, "arguments": {}}).error["code"] == -32602


@pytest.mark.parametrize("version", WIRES)
def test_it_is_no_more_than_is_stored_with_each_call(hub: RunningHub, version: str) -> None:
    token, much = hub.tokens["agent-a"], {"experimental": {"x": "y" * 70_000}}
    if version == "2026-07-28":
        with Client(hub.base, token) as client:
            assert client.tool("greet", {"name": "x"}, caps=much).error["code"] == -32602
            assert client.tool("greet", {"name": "y" * 70_000}).result["content"]
    else:
        refused = pytest.raises(AssertionError, match="larger than 65536 bytes")
        with SessionClient(hub.base, token, version="") as session, refused:
            session.initialize(version, much)
