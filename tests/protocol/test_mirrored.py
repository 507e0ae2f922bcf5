"""Arguments that have to be in headers too: what counts as asking for it, and what a header may hold."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

from taskhub.protocol.errors import WireError
from taskhub.protocol.stateless.request import check_name, decoded_header, param_headers

REGION: dict[str, Any] = {"type": "string", "x-mcp-header": "Region"}
OTHER: dict[str, Any] = {"type": "string", "x-mcp-header": "Other"}


def having(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"region": REGION, **more}}


VOID = {
    "a number": having(x={"type": "number", "x-mcp-header": "X"}),
    "an object": having(x={"type": "object", "x-mcp-header": "X"}),
    "two types": having(x={"type": ["string", "null"], "x-mcp-header": "X"}),
    "no type": having(x={"x-mcp-header": "X"}),
    "no name": having(x={"type": "string", "x-mcp-header": ""}),
    "no token": having(x={"type": "string", "x-mcp-header": "X Y"}),
    "a line break": having(x={"type": "string", "x-mcp-header": "X\n"}),
    "no string": having(x={"type": "string", "x-mcp-header": 7}),
    "twice": having(x={"type": "string", "x-mcp-header": "REGION"}),
    "the whole": {**having(), "x-mcp-header": "X"},
    "in an array": having(x={"type": "array", "items": {"properties": {"y": OTHER}}}),
    "in an alternative": {**having(), "allOf": [{"properties": {"y": OTHER}}]},
    "in a definition": {**having(), "$defs": {"d": {"properties": {"y": OTHER}}}},
    "by a pattern": {**having(), "patternProperties": {"^y": OTHER}},
    "behind a negation": having(x={"not": {"properties": {"y": OTHER}}}),
}
FINE = {
    "one": having(),
    "three": having(n={"type": "integer", "x-mcp-header": "N"}, b={"type": "boolean", "x-mcp-header": "B"}),
    "deep": having(x={"type": "object", "properties": {"y": {"properties": {"z": OTHER}}}}),
    "data that looks like one": having(x={"const": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": 1}]}),
    "a property of that name": having(**{"x-mcp-header": {"type": "number"}}),
    "odd schemas": having(x=True, y={"properties": [], "items": 7, "allOf": {}, "$defs": []}),
}


@pytest.mark.parametrize("what", VOID)
@pytest.mark.req("B26-25")
def test_an_annotation_that_is_void_asks_for_no_header_of_the_tool(what: str) -> None:
    assert find_invalid_x_mcp_header(VOID[what]) is not None, "the SDK's clients send them"
    assert param_headers(VOID[what]) == ()


@pytest.mark.parametrize("what", FINE)
@pytest.mark.req("B26-25")
def test_what_an_sdk_client_mirrors_is_asked_for(what: str) -> None:
    assert find_invalid_x_mcp_header(FINE[what]) is None
    mirrored = {path: f"mcp-param-{name.lower()}" for path, name in x_mcp_header_map(FINE[what]).items()}
    assert {path: header for header, path in param_headers(FINE[what])} == mirrored


@pytest.mark.parametrize("sent", ["ü", "gr\xfc\xdfe", "\x80", "a\x7f", "a\x00b", "a\nb", "=?base64?\xfc?="])
@pytest.mark.req("B26-26")
def test_characters_that_no_header_may_hold_are_refused(sent: str) -> None:
    for look in (lambda: decoded_header(sent), lambda: check_name(sent, sent)):
        with pytest.raises(WireError) as caught:
            look()
        assert caught.value.code == -32020


@pytest.mark.parametrize("sent", ["", " ", "a\tb", "~!@#$%^&*()", "a b"])
@pytest.mark.req("B26-26")
def test_all_other_characters_may_be_sent_as_they_are(sent: str) -> None:
    assert decoded_header(sent) == sent
