"""The Python SDK's own OAuth client, unmodified, signing in to a running TaskHub.

    python -m tests.clients.sdk_oauth URL DATA_DIR [DOCUMENT_URL]

The person's part, which is a browser's, is played with plain requests: sign in, read the consent
page, tick, send the form. Without DOCUMENT_URL only the client that an administrator registers is
tried. Prints one line per step and exits non-zero if anything differs from what a user would expect.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

CALLBACK = "http://127.0.0.1:9/callback"
"""Where a program would listen; the person's browser is stopped before it goes there."""


class Person:
    """Somebody with a browser. `allowed` are the scopes they tick (`None`: all that are offered),
    `says` is the button they press."""

    def __init__(self, base: str, username: str, password: str) -> None:
        self.http = httpx2.AsyncClient(base_url=base, timeout=30, follow_redirects=False)
        self.name, self.password = username, password
        self.allowed: set[str] | None = None
        self.says = "allow"
        self.pages: list[str] = []
        self.change: dict[str, str] = {}
        self.brought: dict[str, str] = {}
        """What their browser brings back to the program."""

    async def sign_in(self) -> None:
        """Through the sign-in page."""
        page = (await self.http.get("/accounts/login/")).text
        done = await self.submit("/accounts/login/", page, {"login": self.name, "password": self.password})
        assert done.status_code == 302, done.text

    async def submit(self, path: str, page: str, fields: dict[str, Any]) -> httpx2.Response:
        """Send a page's form."""
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert found is not None, page
        base = str(self.http.base_url).rstrip("/")
        return await self.http.post(
            path, data={"csrfmiddlewaretoken": found[1], **fields}, headers={"Origin": base, "Referer": base}
        )

    async def open(self, url: str) -> None:
        """Go where a program sends them, decide there, and remember what goes back."""
        parts = urlsplit(url)
        query = {**dict(parse_qsl(parts.query)), **self.change}
        here = f"{parts.path}?{urlencode(query)}"
        response = await self.http.get(here)
        if response.status_code == 200:
            self.pages.append(unescape(response.text))
            offered = re.findall(r'name="grant" value="([^"]+)"', response.text)
            ticked = [scope for scope in offered if self.allowed is None or scope in self.allowed]
            response = await self.submit(here, response.text, {"grant": ticked, "decision": self.says})
        assert response.status_code == 302, (response.status_code, response.text)
        self.brought = dict(parse_qsl(urlsplit(response.headers["location"]).query))

    async def answer(self) -> AuthorizationCodeResult:
        """What the program finds in its callback."""
        if "error" in self.brought:
            raise OAuthFlowError(self.brought["error"])
        return AuthorizationCodeResult(
            code=self.brought["code"], state=self.brought["state"], iss=self.brought.get("iss")
        )


class Memory:
    """The SDK's storage, in memory."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.client, self.tokens = client, None
        self.seen: list[OAuthToken] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens  # type: ignore[assignment]
        self.seen.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider(
    url: str, person: Person, memory: Memory, document: str | None = None, *, callback: str = CALLBACK
) -> OAuthClientProvider:
    """The SDK's client."""
    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="SDK test", redirect_uris=[AnyUrl(callback)], token_endpoint_auth_method="none"
        ),
        storage=memory,
        redirect_handler=person.open,
        callback_handler=person.answer,
        client_metadata_url=document,
    )


async def echo(url: str, auth: OAuthClientProvider, text: str, tool: str, argument: str) -> str:
    """Call a tool that says something back."""
    async with (
        httpx2.AsyncClient(auth=auth, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool(tool, {argument: text})
        assert not result.is_error, result
        return str(result.content[0].text)  # type: ignore[union-attr]


async def register(admin: Person, name: str, callback: str = CALLBACK) -> OAuthClientInformationFull:
    """What an administrator does once: a confidential application, its secret shown on one page."""
    page = (await admin.http.get("/clients/applications/?new")).text
    fields = {"name": name, "redirects": callback, "type": "confidential"}
    made = (await admin.submit("/clients/applications/add", page, fields)).text
    secret = re.search(r'<code id="secret"[^>]*>([^<]+)</code>', made)
    client_id = re.search(r'Client id</dt>\s*<dd class="mono">([^<]+)</dd>', made)
    assert secret is not None, made
    assert client_id is not None, made
    return OAuthClientInformationFull(
        client_id=client_id[1],
        client_secret=secret[1],
        redirect_uris=[AnyUrl(callback)],
        token_endpoint_auth_method="client_secret_basic",
    )


async def sign_in_and_call(
    url: str, person: Person, memory: Memory, document: str | None, *, tool: str, argument: str
) -> None:
    """Sign in, call, refresh, be refused with too little, ask for more, be refused elsewhere."""
    auth = provider(url, person, memory, document)
    assert "hello" in await echo(url, auth, "hello", tool, argument)
    first = memory.seen[-1]
    print("signed in as", memory.client and memory.client.client_id, "with", first.scope)
    assert set((first.scope or "").split()) == {"tasks:call", "tasks:read", "tasks:answer", "tasks:cancel"}

    auth.context.token_expiry_time = 1.0
    assert "again" in await echo(url, auth, "again", tool, argument)
    second = memory.seen[-1]
    assert len(memory.seen) == 2
    assert (second.access_token, second.refresh_token) != (first.access_token, first.refresh_token)
    async with httpx2.AsyncClient() as http:
        gone = await http.post(url, json={}, headers={"Authorization": f"Bearer {first.access_token}"})
        assert gone.status_code == 401, gone.text
        assert 'error="invalid_token"' in gone.headers["www-authenticate"]
        print("refreshed; the token before it is refused")

        # The same server under another name is another resource: the token was not made for it.
        here, there = ("127.0.0.1", "localhost") if "127.0.0.1" in url else ("localhost", "127.0.0.1")
        elsewhere = url.replace(here, there)
        foreign = await http.post(elsewhere, json={}, headers={"Authorization": f"Bearer {second.access_token}"})
        assert foreign.status_code == 401, foreign.text
        assert 'error="invalid_token"' in foreign.headers["www-authenticate"]
        print("refused at", elsewhere)

    little = Memory(memory.client)
    person.allowed = {"tasks:read"}
    auth = provider(url, person, little, document)
    try:
        await echo(url, auth, "x", tool, argument)
    except BaseException as error:  # noqa: BLE001 - the SDK wraps it in groups of its own
        print("refused with too little:", type(error).__name__)
    else:
        raise AssertionError("a token without tasks:call called a tool")
    assert {tokens.scope for tokens in little.seen} == {"tasks:read"}
    assert len(little.seen) == 2, "the SDK came back once for the scope it was told to ask for"
    person.allowed = None
    assert "more" in await echo(url, auth, "more", tool, argument)
    assert "tasks:call" in str(little.seen[-1].scope)
    print("asked for more, got", little.seen[-1].scope)

    person.says = "deny"
    try:
        await echo(url, provider(url, person, Memory(memory.client), document), "x", tool, argument)
    except BaseException as error:  # noqa: BLE001 - as above
        print("denied:", type(error).__name__)
    else:
        raise AssertionError("a denied program called a tool")
    person.says = "allow"

    person.change = {"resource": "https://other.example.com/mcp"}
    try:
        await echo(url, provider(url, person, Memory(memory.client), document), "x", tool, argument)
    except BaseException as error:  # noqa: BLE001 - as above
        print("no token for another resource:", _all(error))
        refused = "invalid_target" in _all(error)
    else:
        raise AssertionError("a token for another resource was issued")
    assert refused
    person.change = {}


def _all(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return " ".join(_all(inner) for inner in error.exceptions)
    return f"{error} {_all(error.__cause__) if error.__cause__ else ''}"


async def main(url: str, data: str, document: str | None = None, tool: str = "echo", argument: str = "text") -> None:
    """Both ways of being known."""
    users = json.loads((Path(data) / "credentials.json").read_text())["users"]
    base = url.removesuffix("/mcp")
    admin, person = (Person(base, users[name]["username"], users[name]["password"]) for name in ("admin", "operator"))
    await admin.sign_in()
    await person.sign_in()
    await sign_in_and_call(
        url, person, Memory(await register(admin, "SDK, registered")), None, tool=tool, argument=argument
    )
    assert "SDK, registered" in person.pages[0]
    if document is not None:
        await sign_in_and_call(url, person, Memory(), document, tool=tool, argument=argument)
        assert urlsplit(document).netloc in person.pages[-1]
    for somebody in (admin, person):
        await somebody.http.aclose()
    print("Python SDK, signing in: all as expected")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
