"""How programs write in their files that a server is authorized by OAuth, as their documentation has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.mcp_json import read_mcp_json
from taskhub.domain.catalogue.server_files import FileOAuth, FileServer, Placeholder, ServersFile, servers_of

URL = "https://mcp.example.com/mcp"
SECRET = "sw0rdfish"
KEY = "it.clientSecret"


def file_of(inputs: Any = (), **entry: Any) -> ServersFile:
    return read_mcp_json(json.dumps({"mcpServers": {"it": {"url": URL} | entry}, "inputs": inputs}))


def one(file: ServersFile, **values: str) -> FileServer:
    (server,) = servers_of(file, values)
    return server


def test_claude_code_keeps_the_secret_elsewhere_so_it_is_asked_for() -> None:
    file = file_of(
        type="http",
        oauth={
            "clientId": "abc",
            "callbackPort": 8080,
            "authServerMetadataUrl": "https://auth.example.com/.well-known/openid-configuration",
            "scopes": "notes:read notes:write",
        },
    )
    wanted = Placeholder(KEY, "The secret of the client abc for it", secret=True, needed=False)
    assert file.placeholders == (wanted,)
    kept = FileOAuth("abc", SECRET, "https://auth.example.com", "notes:read notes:write")
    assert one(file, **{KEY: SECRET}) == FileServer("it", URL, oauth=kept, ignored=("oauth.callbackPort",))
    assert one(file, **{KEY: ""}).oauth == FileOAuth("abc", "", "https://auth.example.com", "notes:read notes:write")
    shown = servers_of(file, None)[0].shown_oauth
    assert shown == "OAuth, as client abc, at https://auth.example.com, with the scopes notes:read notes:write"


def test_vs_code() -> None:
    assert one(file_of(type="http", oauth={"clientId": "guid"}), **{KEY: ""}).oauth == FileOAuth("guid")


def test_cursor_and_its_secret_that_stands_in_the_file_is_told() -> None:
    auth = {"CLIENT_ID": "c-1", "CLIENT_SECRET": SECRET, "scopes": ["openid", "notes:read"]}
    file = file_of(auth=auth)
    server = one(file)
    assert (file.placeholders, server.taken) == ((), ("its client secret",))
    assert server.oauth == FileOAuth("c-1", SECRET, "", "openid notes:read")
    assert SECRET not in repr(file) + repr(server) + server.shown_oauth
    file = file_of(auth=auth | {"CLIENT_SECRET": "${env:MCP_SECRET}"})
    assert [asked.key for asked in file.placeholders] == ["MCP_SECRET"]
    server = one(file, MCP_SECRET=SECRET)
    assert (server.taken, server.oauth) == ((), FileOAuth("c-1", SECRET, "", "openid notes:read"))


def test_gemini_cli_and_others_that_register_by_themselves() -> None:
    assert one(file_of(oauth={"enabled": True})).oauth == FileOAuth()
    assert one(file_of(oauth={})).oauth == FileOAuth()
    for off in ({"oauth": False}, {"oauth": {"enabled": False, "clientId": "x"}}, {"oauth": None}):
        assert one(file_of(**off)).oauth is None
    given = {"clientId": "x", "issuer": "https://a.example", "tokenUrl": "https://a.example/t", "audiences": ["y"]}
    server = one(file_of(oauth=given), **{KEY: ""})
    assert (server.oauth, server.ignored) == (
        FileOAuth("x", "", "https://a.example"),
        ("oauth.tokenUrl", "oauth.audiences"),
    )


def test_client_credentials_need_their_secret() -> None:
    file = file_of(oauth={"client_id": "robot", "grant_type": "client_credentials", "scope": "a"})
    assert file.placeholders[0].needed
    with pytest.raises(Invalid, match=r"^There is no value for it\.clientSecret\.$"):
        one(file)
    assert one(file, **{KEY: SECRET}).oauth == FileOAuth("robot", SECRET, "", "a", by_client=True)


@pytest.mark.parametrize(
    ("address", "issuer"),
    [
        ("https://a.example/.well-known/oauth-authorization-server", "https://a.example"),
        ("https://a.example/.well-known/oauth-authorization-server/realms/x", "https://a.example/realms/x"),
        ("https://a.example/realms/x/.well-known/openid-configuration", "https://a.example/realms/x"),
        ("${AUTH}/.well-known/openid-configuration", "${AUTH}"),
    ],
)
def test_the_issuer_follows_from_where_its_metadata_are(address: str, issuer: str) -> None:
    (server,) = servers_of(file_of(oauth={"authServerMetadataUrl": address}), None)
    assert server.oauth == FileOAuth(issuer=issuer)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"oauth": "yes"}, "it: its `oauth` is no object"),
        ({"oauth": {}, "auth": {"CLIENT_ID": "x"}}, "it: it has both `oauth` and `auth`"),
        ({"oauth": {"clientId": "x", "client_id": "y"}}, "it: its `oauth` has both `clientId` and `client_id`"),
        ({"oauth": {"clientId": 5}}, "it: in its `oauth`, `clientId` is no text"),
        ({"auth": {"scopes": [5]}}, "it: in its `auth`, `scopes` is no text"),
        ({"oauth": {"tokenUrl": "https://a.example/token"}}, "it: its `oauth` has `tokenUrl`, but TaskHub asks"),
        ({"oauth": {"grantType": "password"}}, "it: its `oauth` has the grant type 'password'"),
        ({"oauth": {"authServerMetadataUrl": "https://a.example/meta"}}, "it: in its `oauth`, `authServerMetadata"),
        ({"oauth": {}, "url": None, "command": "x"}, "it: only a server with a url is authorized by OAuth"),
        ({"headersHelper": "/opt/token.sh"}, "it: a program that makes headers is not run"),
    ],
)
def test_what_cannot_be_kept_is_refused(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        file_of(**entry)


def test_what_the_file_calls_a_secret_is_no_client_id() -> None:
    inputs = [{"id": "pw", "type": "promptString", "password": True}]
    with pytest.raises(
        Invalid, match="it: the secret input:pw would stand in its client id, issuer or scopes"
    ) as error:
        one(file_of(inputs, oauth={"clientId": "${input:pw}"}), **{"input:pw": SECRET, KEY: ""})
    assert SECRET not in error.value.message
