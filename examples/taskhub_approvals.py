"""A client of TaskHub's `/api/v1/approvals`, for the programs beside this file. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_WAIT = 60
"""The longest that TaskHub lets one request wait, in seconds."""
MOST_TIMES = 50
"""How often the same call may be made in one session."""
OVER = frozenset({"redeemed", "expired", "cancelled", "failed"})
"""What a request has come to when another one has to be made."""


@dataclass(frozen=True)
class Answer:
    """Whether a call may be made: `status` is `allow`, `deny`, `pending` (people have not decided yet) or `unknown`
    (TaskHub does not know the tool)."""

    status: str
    words: str = ""


class Refused(Exception):
    """TaskHub refused a request."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Approvals:
    """TaskHub at `url`, asked with a client's token. `program` is what this program calls itself."""

    def __init__(self, url: str, token: str, program: str) -> None:
        self.base = f"{url.rstrip('/')}/api/v1/approvals"
        self.token, self.program = token, program

    def ask(self, server: str, tool: str, arguments: dict[str, Any], *, wait: float, session: str) -> Answer:
        """Ask whether a call may be made, wait so many seconds at most, and redeem the permit: the call that follows is
        the one that was allowed. The same call in the same session finds the request that was made before, as long as
        its permit was not used."""
        call = {"server": server, "tool": tool, "arguments": arguments, "program": self.program}
        digest = hashlib.sha256(json.dumps([session, call], sort_keys=True).encode()).hexdigest()
        deadline = time.monotonic() + wait
        for time_of_call in range(MOST_TIMES):
            try:
                found = self._decided(call, f"{digest[:40]}-{time_of_call}", deadline)
                if found["status"] == "granted":
                    self._redeem(found, arguments)
                    return Answer("allow", "Allowed by TaskHub")
            except Refused as refused:
                if refused.code == "used":  # by an equal call at the same moment
                    continue
                return Answer("unknown" if refused.status == 404 else "deny", f"TaskHub: {refused}")
            if found["status"] not in OVER:
                where = f" ({found['page']})" if "page" in found else ""
                return Answer(str(found["status"]).replace("denied", "deny"), f"{found.get('message', '')}{where}")
        return Answer("deny", "This call was made too often in one session.")

    def _decided(self, call: dict[str, Any], key: str, deadline: float) -> dict[str, Any]:
        """The request, as soon as it is decided, or as it stands when time is over."""
        found = self._send("POST", f"?wait={_left(deadline)}", call, key)
        while found["status"] == "pending" and (left := _left(deadline)):
            found = self._send("GET", f"/{found['id']}?wait={left}")
        return found

    def _redeem(self, granted: dict[str, Any], arguments: dict[str, Any]) -> None:
        body = {"permit": granted["permit"], "arguments": arguments, "program": self.program}
        self._send("POST", f"/{granted['id']}/redeem", body)

    def _send(self, method: str, path: str, body: Any = None, key: str = "") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}{path}", data=sent, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=MOST_WAIT + 10) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                told = json.load(error)["error"]
            raise Refused(error.code, told["code"], told["message"]) from None
        return found


def _left(deadline: float) -> int:
    return max(0, min(MOST_WAIT, round(deadline - time.monotonic())))


def token() -> str:
    """The token of the environment; empty if there is none."""
    file = os.environ.get("TASKHUB_TOKEN_FILE")
    return Path(file).read_text().strip() if file else os.environ.get("TASKHUB_TOKEN", "")
