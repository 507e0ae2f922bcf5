"""A person at the console of a running hub, without a browser."""

from __future__ import annotations

import json
import re
import ssl
from html import unescape
from urllib.parse import parse_qsl, urlsplit

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


class Person:
    """Signed in with one of the accounts of the first run, such as `approver`."""

    def __init__(self, hub: RunningHub, role: str, base: str = "", tls: ssl.SSLContext = _NO_TLS) -> None:
        base = base or hub.base
        self._http = httpx2.Client(
            base_url=base, trust_env=False, verify=tls, follow_redirects=True, headers={"Origin": base}
        )
        account = json.loads((hub.data / "credentials.json").read_text())["users"][role]
        path = "/accounts/login/"
        self._send(path, path, login=account["username"], password=account["password"])

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def read(self, path: str) -> str:
        """The page there, as it is sent."""
        return self._http.get(path, headers={"Accept": "text/html"}).raise_for_status().text

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

    def _send(self, page: str, action: str, /, **fields: str) -> None:
        """Fill in the form on the page that leads to `action`."""
        text = self._http.get(page).raise_for_status().text
        form = next(form for form in re.findall(r"<form.*?</form>", text, re.DOTALL) if f'action="{action}"' in form)
        hidden = {
            name: unescape(value)
            for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
        }
        self._http.post(action, data={**hidden, **fields}).raise_for_status()
