"""A person at the console of a running hub, without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
from collections import Counter
from collections.abc import Callable
from html import unescape
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2

from tests.support.client import _NO_TLS
from tests.support.hub import RunningHub


def question_at(hub: RunningHub, address: str) -> int:
    """The id of the question to which this address, that a client was told, leads people."""
    parts = urlsplit(address)
    assert f"{parts.scheme}://{parts.netloc}" == hub.base
    found = re.fullmatch(r"/inbox/task/([^/]+)/", parts.path)
    assert found is not None, address
    ((question,),) = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s AND q.key = %s",
        [found[1], dict(parse_qsl(parts.query))["key"]],
    )
    return int(question)


_SIGN_INS: Counter[str] = Counter()
"""By the address of a hub. One address may sign in 30 times a minute, which fast tests of one hub do more often: so
people come from another address of this machine after every twenty."""
_OF_ONE_ADDRESS = 20


class Person:
    """Signed in with one of the accounts of the first run, such as `approver`, or with the account of that name whose
    `password` is given."""

    def __init__(
        self, hub: RunningHub, role: str, base: str = "", tls: ssl.SSLContext = _NO_TLS, *, password: str = ""
    ) -> None:
        base = base or hub.base
        number, _SIGN_INS[base] = _SIGN_INS[base] // _OF_ONE_ADDRESS, _SIGN_INS[base] + 1
        place = f"127.0.0.{1 + number}" if number else None
        self._http = httpx2.Client(
            base_url=base,
            transport=httpx2.HTTPTransport(verify=tls, trust_env=False, local_address=place),
            follow_redirects=True,
            headers={"Origin": base},
        )
        account = {"username": role, "password": password}
        if not password:
            account = json.loads((hub.data / "credentials.json").read_text())["users"][role]
        path = "/accounts/login/"
        try:
            self._send(path, path, login=account["username"], password=account["password"])
        except BaseException:
            self._http.close()
            raise

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def read(self, path: str) -> str:
        """The page there, as it is sent."""
        return self._http.get(path, headers={"Accept": "text/html"}).raise_for_status().text

    def fill(self, page: str, action: str = "", **fields: str) -> str:
        """Fill in the form on a page that leads to `action`, or to the page itself. Returns what comes of it."""
        return self._send(page, action or page, **fields)

    @property
    def session(self) -> str:
        """What the cookie of the session holds."""
        return self._http.cookies["sessionid"]

    def led_to(self, address: str) -> int:
        """The id of the question whose page is shown for the address that a client was told."""
        found = self._http.get(address)
        return int(found.raise_for_status().url.path.rstrip("/").rpartition("/")[2])

    def decide(self, question: int, verdict: str = "approve", reason: str = "") -> None:
        """Approve or reject a call; who rejects says why."""
        self._send(f"/inbox/{question}/", f"/inbox/{question}/decide", verdict=verdict, reason=reason)

    def edit(self, question: int, **fields: str) -> None:
        """Approve a call with edited arguments, past the look at the difference; they are named by their place."""
        where = f"/inbox/{question}/edit"
        shown = re.search(r'name="mark" value="([0-9a-f]{64})"', self._send(where, where, **fields))
        assert shown is not None
        self._send(where, where, **fields, mark=shown[1])

    def answer(self, question: int, action: str = "accept", **fields: str) -> None:
        """Answer what a tool asks; its form's fields are named by their place: `f0`, `f1`, …"""
        self._send(f"/inbox/{question}/", f"/inbox/{question}/answer", action=action, **fields)

    def rule(self, question: int, verdict: str, reason: str, result: str = "") -> None:
        """Rule on a lost run, past the look at what follows."""
        fields = {"verdict": verdict, "reason": reason, "result": result, "confirmed": "1"}
        self._send(f"/inbox/{question}/", f"/inbox/{question}/rule", **fields)

    def try_now(self, server: int) -> None:
        """Have a server tried whose calls wait."""
        self._send(f"/servers/{server}/", f"/servers/{server}/try")

    def authorize(self, page: str, action: str, at: Person, **fields: str) -> str:
        """Authorize a server, as the account `at` that is signed in at its authorization server, another hub, by the
        form of a page that leads to `action`. Returns the page that the person comes back to."""
        link = re.search(r'class="button primary host" href="([^"]+)"', self._send(page, action, **fields))
        assert link is not None
        answer = self._http.get(at.allow(unescape(link[1]))).raise_for_status()
        return answer.text

    def press(self, shown: str, action: str, /, **fields: str) -> str:
        """Send the form that leads to `action` of a page that is shown. Returns the page that comes of it."""
        return self._http.post(action, data={**_hidden(_form(shown, action)), **fields}).raise_for_status().text

    def allow(self, address: str) -> str:
        """Let the program act that leads here, as this person, with all that it asks for. Returns where it is told."""
        text = self._http.get(address).raise_for_status().text
        form = next(form for form in re.findall(r"<form.*?</form>", text, re.DOTALL) if 'value="allow"' in form)
        scopes = re.findall(r'name="grant" value="([^"]+)"', form)
        fields = {**_hidden(form), "grant": scopes, "decision": "allow"}
        answer = self._http.post(address, data=fields, follow_redirects=False)
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])

    def program(self, name: str) -> str:
        """The token of a program that registers itself and acts for this person."""
        verifier, back = "v" * 64, "http://127.0.0.1:1/back"
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        document = {"client_name": name, "redirect_uris": [back], "token_endpoint_auth_method": "none"}
        client_id = self._http.post("/oauth/register", json=document).raise_for_status().json()["client_id"]
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": back,
            "scope": "tasks:call tasks:read",
            "state": "s",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        told = parse_qs(urlsplit(self.allow(f"/oauth/authorize?{urlencode(asked)}")).query)
        form = {
            "grant_type": "authorization_code",
            "code": told["code"][0],
            "redirect_uri": back,
            "code_verifier": verifier,
            "client_id": client_id,
        }
        return str(self._http.post("/oauth/token", data=form).raise_for_status().json()["access_token"])

    def end_access(self) -> None:
        """End the access of every program that may act for this person."""
        while found := re.search(r'href="(\?revoke=\d+)', self.read("/accounts/")):
            page = f"/accounts/{found[1]}"
            action = re.search(r'action="(/accounts/allowed/\d+/revoke)"', self.read(page))
            assert action is not None
            self._send(page, action[1])

    def _send(self, page: str, action: str, /, **fields: str) -> str:
        """Fill in the form on the page that leads to `action`. Returns the page that comes of it."""
        return self.filled(page, action, **fields)()

    def filled(self, page: str, action: str, /, **fields: str) -> Callable[[], str]:
        """The form on the page that leads to `action`, filled in; it is sent by the call, which returns the page that
        comes of it."""
        data = {**_hidden(_form(self._http.get(page).raise_for_status().text, action)), **fields}
        return lambda: self._http.post(action, data=data).raise_for_status().text


def _form(text: str, action: str) -> str:
    """The form of a page that leads to `action`."""
    forms: list[str] = re.findall(r"<form.*?</form>", text, re.DOTALL)
    return next(form for form in forms if f'action="{action}"' in form)


def _hidden(form: str) -> dict[str, str]:
    """The hidden fields of a form."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in found}
