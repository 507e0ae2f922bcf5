"""The programs in `examples/`, as they are run: the hook of an agent program, and the service that a gateway asks."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from taskhub.core.names import APPROVALS_SCOPE
from tests.support import needed
from tests.support.approvals import SERVER
from tests.support.hub import ROOT, RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import rules_in_force

pytestmark = pytest.mark.processes

EXAMPLES = ROOT / "examples"
RULES: tuple[dict[str, Any], ...] = (
    {
        "name": "no permit for Eve",
        "when": "tool.name == 'greet' && args.name == 'Eve'",
        "then": "deny",
        "words": "Eve is away.",
    },
    {"name": "Ann is asked about", "when": "tool.name == 'greet' && args.name == 'Ann'", "then": "ask"},
)


@pytest.fixture(scope="module", autouse=True)
def _ruled(hub: RunningHub) -> Iterator[None]:
    with rules_in_force(hub, *RULES):
        yield


@pytest.fixture
def environment(hub: RunningHub) -> dict[str, str]:
    """That of a client of its own."""
    name = f"caller-{secrets.token_hex(4)}"
    told = {"TASKHUB_URL": hub.base, "TASKHUB_TOKEN": hub.token(name, APPROVALS_SCOPE), "CALLER": name}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("TASKHUB_")}, **told}


def asked_by(hub: RunningHub, caller: str) -> int:
    """The one open question of this client."""
    ((question,),) = wait_until(
        lambda: hub.sql(
            "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id JOIN auth_context c ON c.id = t.context_id"
            " WHERE c.name = %s AND q.state = 'open'",
            [caller],
        ),
        "the question",
    )
    return int(question)


def redeemed_by(hub: RunningHub, caller: str) -> int:
    ((count,),) = hub.sql(
        "SELECT count(p.redeemed_at) FROM permit p JOIN auth_context c ON c.id = p.context_id WHERE c.name = %s",
        [caller],
    )
    return int(count)


# The hook ---------------------------------------------------------------------------------


def hooked(environment: dict[str, str], name: str = "Bob", tool: str = "greet", **more: Any) -> subprocess.Popen[str]:
    """The hook, begun with what Claude Code tells it."""
    call = {
        "session_id": "s",
        "hook_event_name": "PreToolUse",
        "tool_name": f"mcp__{SERVER}__{tool}",
        "tool_input": {"name": name},
        **more,
    }
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "approval_hook.py"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(call))
    process.stdin.close()
    process.stdin = None
    return process


def said(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The decision, and why."""
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    told = json.loads(out)["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    return told["permissionDecision"], told["permissionDecisionReason"]


def test_the_hook_allows_what_a_rule_allows(hub: RunningHub, environment: dict[str, str]) -> None:
    assert [said(hooked(environment))[0] for _ in range(2)] == ["allow", "allow"]
    assert redeemed_by(hub, environment["CALLER"]) == 2


def test_the_hook_denies_in_the_words_of_the_rule(environment: dict[str, str]) -> None:
    decision, why = said(hooked(environment, "Eve"))
    assert decision == "deny"
    assert "Eve is away." in why


def test_the_hook_waits_for_people(hub: RunningHub, environment: dict[str, str]) -> None:
    waiting = hooked(environment, "Ann")
    with Person(hub, "approver") as approver:
        approver.decide(asked_by(hub, environment["CALLER"]))
    assert said(waiting)[0] == "allow"
    assert redeemed_by(hub, environment["CALLER"]) == 1
    impatient = {**environment, "TASKHUB_WAIT": "0"}
    assert said(hooked(impatient, "Ann"))[0] == "deny", "one approval is for one call"


def test_the_hook_finds_the_request_that_it_left(hub: RunningHub, environment: dict[str, str]) -> None:
    impatient = {**environment, "TASKHUB_WAIT": "0"}
    decision, why = said(hooked(impatient, "Ann"))
    assert decision == "deny"
    assert f"{hub.base}/inbox/task/" in why
    with Person(hub, "approver") as approver:
        approver.decide(asked_by(hub, environment["CALLER"]), "reject", "not today")
    for _ in range(2):
        decision, why = said(hooked(impatient, "Ann"))
        assert (decision, why.endswith("not today")) == ("deny", True)
    assert said(hooked({**impatient}, "Ann", session_id="another"))[1].startswith("Waiting for approval")


@pytest.mark.parametrize("tool", ["no_such_tool", "greet"])
def test_the_hook_leaves_what_the_hub_does_not_know_to_the_user(environment: dict[str, str], tool: str) -> None:
    server = SERVER if tool != "greet" else "elsewhere"
    assert said(hooked(environment, tool_name=f"mcp__{server}__{tool}"))[0] == "ask"


def test_the_hook_takes_other_names_for_servers(environment: dict[str, str]) -> None:
    named = {**environment, "TASKHUB_SERVERS": f"ours={SERVER},more=x"}
    assert said(hooked(named, tool_name="mcp__ours__greet"))[0] == "allow"


def test_the_hook_says_nothing_of_the_programs_own_tools_unless_it_is_told_to(environment: dict[str, str]) -> None:
    process = hooked(environment, tool_name="Bash", tool_input={"command": "ls"})
    assert process.communicate(timeout=60)[0] == ""
    own = {**environment, "TASKHUB_OWN_TOOLS": SERVER}
    assert said(hooked(own, tool_name="greet"))[0] == "allow"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TASKHUB_TOKEN", "wrong"),
        ("TASKHUB_URL", "http://127.0.0.1:1"),
        ("TASKHUB_URL", "nowhere"),
        ("TASKHUB_WAIT", "x"),
    ],
)
def test_the_hook_denies_whatever_goes_wrong(environment: dict[str, str], name: str, value: str) -> None:
    assert said(hooked({**environment, name: value}))[0] == "deny"


def test_the_hook_denies_what_it_cannot_read(environment: dict[str, str]) -> None:
    command = [sys.executable, EXAMPLES / "approval_hook.py"]
    done = subprocess.run(command, check=True, env=environment, input="{", capture_output=True, text=True)
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_the_hook_blocks_the_call_without_the_file_beside_it(tmp_path: Path) -> None:
    alone = tmp_path / "approval_hook.py"
    alone.write_bytes((EXAMPLES / alone.name).read_bytes())
    done = subprocess.run([sys.executable, alone], check=False, input="{}", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")


# The gateway ------------------------------------------------------------------------------


class Served(ThreadingHTTPServer):
    """The MCP server behind the gateway: it says that it was called, and remembers with what."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Serving)
        self.calls: list[bytes] = []


class Serving(BaseHTTPRequestHandler):
    server: Served

    def do_POST(self) -> None:
        self.server.calls.append(self.rfile.read(int(self.headers["content-length"])))
        self.do_GET()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"served")

    def log_message(self, *args: Any) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*command: str | Path, ready: int, **options: Any) -> Iterator[None]:
    """A process, from when it listens on the port `ready`."""

    def listens() -> bool:
        assert process.poll() is None, command
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", ready)) == 0

    process = subprocess.Popen(command, **options)
    try:
        wait_until(listens, f"{command[0]} to listen", 30)
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def gateway(served: Served, environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of Envoy, as `examples/envoy.yaml` has it."""
    envoy = needed.program("Envoy", f"{Path(sys.executable).parent}/envoy", "envoy")
    check, front = free_port(), free_port()
    text = (EXAMPLES / "envoy.yaml").read_text()
    for port, ours in ((9000, check), (10000, front), (3000, served.server_address[1])):
        assert f"{port}" in text
        text = text.replace(f"port_value: {port}", f"port_value: {ours}")
    assert yaml.safe_load(text)["static_resources"]
    configuration = tmp_path / "envoy.yaml"
    configuration.write_text(text)
    service = [sys.executable, EXAMPLES / "approval_gateway.py", "--port", str(check), "--wait", "1.5"]
    plain = ["--route", f"/github={SERVER}"]
    log = tmp_path / "envoy.log"
    with (
        running(*service, *plain, ready=check, env=environment, stdout=subprocess.DEVNULL),
        running(
            envoy,
            *("--config-path", configuration, "--concurrency", "1", "--disable-hot-restart", "--log-path", log),
            ready=front,
            stderr=subprocess.DEVNULL,
        ),
    ):
        yield f"http://127.0.0.1:{front}/github/mcp"


def sent(gateway: str, name: str = "Bob", body: bytes = b"", **headers: str) -> tuple[int, str]:
    """The status, and the body or the message of the JSON-RPC error."""
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": name}}}
    headers = {"mcp-session-id": "s", **headers}
    answer = httpx2.post(gateway, content=body or json.dumps(call), headers=headers, timeout=30, trust_env=False)
    if answer.status_code != 403:
        return answer.status_code, answer.text
    told = answer.json()
    assert (told["jsonrpc"], told["error"]["code"]) == ("2.0", -32000)
    assert told["id"] in (7, None)
    return 403, str(told["error"]["message"])


def test_a_gateway_has_calls_decided(
    hub: RunningHub, gateway: str, served: Served, environment: dict[str, str]
) -> None:
    caller = environment["CALLER"]
    assert sent(gateway) == (200, "served")
    assert json.loads(served.calls[0])["params"]["arguments"] == {"name": "Bob"}
    assert redeemed_by(hub, caller) == 1
    status, why = sent(gateway, "Eve")
    assert (status, "Eve is away." in why) == (403, True)
    status, why = sent(gateway, "Ann")
    assert (status, "Make this call again later. Waiting for approval" in why) == (403, True)
    with Person(hub, "approver") as approver:
        approver.decide(asked_by(hub, caller))
    assert sent(gateway, "Ann") == (200, "served")
    assert sent(gateway, "Ann")[0] == 403, "one approval is for one call"
    assert redeemed_by(hub, caller) == 2
    assert len(served.calls) == 2


def test_other_messages_pass_a_gateway(hub: RunningHub, gateway: str, served: Served) -> None:
    listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    assert sent(gateway, body=listing) == (200, "served")
    assert httpx2.get(gateway, trust_env=False).text == "served"


CALL = '{"name":"greet","arguments":{"name":"Bob"}}'


@pytest.mark.parametrize(
    "body",
    [
        f'{{"method":"tools/list","method":"tools/call","params":{CALL}}}',
        f'{{"method":"tools/call","params":{CALL},"params":{{}}}}',
        f'[{{"method":"tools/call","params":{CALL}}}]',
        '{"method":"tools/call","params":{"name":"greet","arguments":{"name":"Eve","name":"Bob"}}}',
        '{"method":"tools/call","params":{"name":7}}',
        '{"method":"tools/call","params":{"name":"greet","arguments":[]}}',
        '{"method":"tools/call"}',
        '{"method":"tools/call","params":{"name":"greet","arguments":{"name":NaN}}}',
        '{"method":"tools/call","params":{"name":"slow_compute","arguments":{"seconds":0.1000000000000000055}}}',
        '{"method":"tools/call","params":{"name":"slow_compute","arguments":{"seconds":1e-99999999999999999999}}}',
        "{",
        "[" * 20_000,
    ],
)
def test_what_two_programs_may_read_differently_does_not_pass(gateway: str, served: Served, body: str) -> None:
    assert sent(gateway, body=body.encode())[0] == 403
    assert served.calls == []


def test_nothing_passes_while_the_hub_is_away(served: Served, tmp_path: Path, environment: dict[str, str]) -> None:
    check = free_port()
    away = {**environment, "TASKHUB_URL": "http://127.0.0.1:1"}
    command = (sys.executable, EXAMPLES / "approval_gateway.py", "--port", str(check), "--route", f"/github={SERVER}")
    with running(*command, ready=check, env=away, stdout=subprocess.DEVNULL):
        status, why = sent(f"http://127.0.0.1:{check}/github/mcp")
        assert (status, why.startswith("TaskHub could not be asked")) == (403, True)
        assert sent(f"http://127.0.0.1:{check}/other/mcp") == (403, "No calls are made here.")


def test_callers_may_be_asked_for_by_their_own_tokens(hub: RunningHub, environment: dict[str, str]) -> None:
    check = free_port()
    command = (sys.executable, EXAMPLES / "approval_gateway.py", "--port", str(check), "--route", f"/github={SERVER}")
    without = {name: value for name, value in environment.items() if name != "TASKHUB_TOKEN"}
    with running(*command, ready=check, env=without, stdout=subprocess.DEVNULL):
        address = f"http://127.0.0.1:{check}/github/mcp"
        assert sent(address, authorization=f"Bearer {environment['TASKHUB_TOKEN']}") == (200, "")
        assert sent(address, authorization="Bearer wrong")[0] == 403
    assert redeemed_by(hub, environment["CALLER"]) == 1
