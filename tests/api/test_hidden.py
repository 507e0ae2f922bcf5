"""What a rule hides from a client, asked about by REST."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.hub import RunningHub
from tests.support.policies import rules_in_force

pytestmark = pytest.mark.processes


def test_rest_does_not_tell_what_is_hidden(hub: RunningHub) -> None:
    """Nor whether it is the server or the tool that is not there."""
    token = hub.token("agent-b", "approvals:request")
    hides = {"name": "h", "when": "client.name == 'agent-b' && server.name == 'extra'", "then": "hide"}
    known = {"server": "extra", "tool": "hold"}
    found = set()
    with rules_in_force(hub, hides):
        for named in (known, {**known, "tool": "no-such"}, {**known, "server": "nobody"}):
            answer = httpx2.post(
                f"{hub.base}/api/v1/approvals",
                json={**named, "arguments": {}},
                headers={"Authorization": f"Bearer {token}"},
            )
            text = answer.text.replace(named["tool"], "TOOL").replace(named["server"], "SERVER")
            found.add((answer.status_code, text))
    ((status, text),) = found
    assert status == 404, text
