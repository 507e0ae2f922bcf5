"""A client of `/api/v1/approvals`."""

from __future__ import annotations

import secrets
from typing import Any

import httpx2

from taskhub.core.names import APPROVALS_SCOPE
from tests.support.hub import RunningHub

SERVER = "fixture-server"
"""Whose tool `greet` is asked for."""


class Api:
    """A client of its own at the API."""

    def __init__(self, hub: RunningHub, *scopes: str) -> None:
        self.name = f"caller-{secrets.token_hex(4)}"
        self.token = hub.token(self.name, *(scopes or (APPROVALS_SCOPE,)))
        self._base = f"{hub.base}/api/v1"

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, dict[str, Any]]:
        """The status and the JSON body of the answer."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        answer = httpx2.request(
            method, f"{self._base}{path}", json=body, headers=headers, timeout=30, trust_env=False, **options
        )
        return answer.status_code, answer.json()

    def ask(self, name: str = "Bob", wait: float = 0, **body: Any) -> dict[str, Any]:
        """Ask to greet somebody."""
        wanted = {"server": SERVER, "tool": "greet", "arguments": {"name": name}, **body}
        status, found = self.send("POST", "/approvals", wanted, params={"wait": wait} if wait else None)
        assert status in (200, 201), found
        return found

    def read(self, approval: str, wait: float = 0) -> dict[str, Any]:
        status, found = self.send("GET", f"/approvals/{approval}", params={"wait": wait} if wait else None)
        assert status == 200, found
        return found

    def redeem(self, granted: dict[str, Any], name: str = "Bob", **body: Any) -> tuple[int, str]:
        """The status, and the word for the outcome."""
        given = {"permit": granted["permit"], "arguments": {"name": name}, **body}
        status, found = self.send("POST", f"/approvals/{granted['id']}/redeem", given)
        return status, found["status"] if status == 200 else found["error"]["code"]


def question_of(hub: RunningHub, approval: str) -> int:
    ((question,),) = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s AND q.state = 'open'",
        [approval],
    )
    return int(question)
