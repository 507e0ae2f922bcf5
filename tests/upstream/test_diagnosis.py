"""Each step to a server is told with its outcome; the first that fails is the last, and no secret is in it."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from taskhub.upstream import diagnosis
from taskhub.upstream.diagnosis import Step, diagnosed
from taskhub.upstream.target import Target
from tests.support.documents import certificate
from tests.upstream import kit
from tests.upstream.test_refusals import answering


def steps(target: Target) -> list[Step]:
    return list(diagnosed(target))


def outcome(found: list[Step]) -> list[tuple[str, bool]]:
    return [(step.name, step.ok) for step in found]


def test_an_http_server_is_reached_step_by_step() -> None:
    with kit.HttpServer() as server:
        found = steps(server.target)
        assert outcome(found) == [(name, True) for name in ("Name", "TCP", "HTTP", "MCP", "Tools")]
        says = {step.name: step.says for step in found}
        assert says["Name"] == "127.0.0.1 is 127.0.0.1"
        assert says["TCP"] == f"connected to 127.0.0.1 port {server.port}"
        assert says["HTTP"].startswith("HTTP ")
        assert says["MCP"] == "2026-07-28 by server/discover, over-http 7"
        assert says["Tools"] == "tools: 2, prompts: 0, resources: 0, templates: 0"
        assert all(step.seconds >= 0 for step in found)
        assert not server.clients(), "the connection should be closed"


def test_nobody_at_the_port() -> None:
    server = kit.HttpServer()
    found = steps(server.target)
    assert outcome(found) == [("Name", True), ("TCP", False)]
    assert found[-1].says == "Connection refused"


def test_a_name_that_there_is_not() -> None:
    assert outcome(steps(Target("http", "http://nowhere.invalid/mcp"))) == [("Name", False)]


def test_a_token_that_is_refused_and_none_that_is_wanted() -> None:
    with answering(401, {}) as target:
        found = steps(target)
        assert outcome(found)[-1] == ("HTTP", False)
        assert found[-1].says == "HTTP 401 Unauthorized: its token is refused"
        assert "s3cret-of-ours" not in str(found)
        assert steps(Target("http", target.target))[-1].says == "HTTP 401 Unauthorized: it wants a token"


def test_what_is_http_and_not_mcp() -> None:
    with answering(200, {"Content-Type": "text/html"}, b"<html>s3cret-of-ours</html>") as target:
        found = steps(target)
        assert outcome(found)[-2:] == [("HTTP", True), ("MCP", False)]
        assert "s3cret-of-ours" not in str(found)
    with answering(307, {"Location": "http://127.0.0.1:1/"}) as target:
        assert "an address elsewhere" in steps(target)[3 - 1].says


@contextmanager
def over_tls(directory: Path, authority: Path) -> Iterator[Target]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(directory, authority))
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Target("http", f"https://127.0.0.1:{server.server_port}/mcp")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = tmp_path / "authority.pem"
    with over_tls(tmp_path, authority) as target:
        found = steps(target)
        assert outcome(found) == [("Name", True), ("TCP", True), ("TLS", False)]
        assert "certificate verify failed" in found[-1].says
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        found = steps(target)
        assert outcome(found)[2] == ("TLS", True)
        assert found[2].says.startswith("TLSv1.3, certificate valid until ")


def test_a_command_is_found_started_and_greeted() -> None:
    found = steps(kit.COMMAND)
    assert outcome(found) == [(name, True) for name in ("Program", "Start", "MCP", "Tools")]
    assert found[0].says == sys.executable
    assert kit.children() == []


@pytest.mark.parametrize(
    ("command", "failed", "says"),
    [
        ("env KEY=sw0rdfish-sw0rdfish no-such-program-anywhere", "Program", "there is no program no-such-program-anyw"),
        (f"env KEY=sw0rdfish-sw0rdfish {sys.executable} -c 'raise SystemExit(3)'", "MCP", ""),
    ],
)
def test_a_command_that_does_not_do(command: str, failed: str, says: str) -> None:
    found = steps(Target("stdio", command))
    assert outcome(found)[-1] == (failed, False)
    assert found[-1].says.startswith(says)
    assert "sw0rdfish" not in str(found)
    assert kit.children() == []


def test_a_python_server_is_imported() -> None:
    found = steps(kit.WORKSHOP)
    assert outcome(found) == [(name, True) for name in ("Import", "MCP", "Tools")]
    for target, says in (
        ("no.such.module:server", "cannot import no.such.module:server: No module named"),
        ("tests.upstream.servers:nothing", "cannot import tests.upstream.servers:nothing"),
    ):
        (step,) = steps(Target("python", target))
        assert (step.name, step.ok, step.says.startswith(says)) == ("Import", False, True)


def test_a_server_that_answers_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "MCP_SECONDS", 0.3)
    found = steps(Target("stdio", f"{sys.executable} -c 'import sys; sys.stdin.read()'"))
    assert (found[-1].name, found[-1].says) == ("MCP", "no answer within 0 s")
    assert kit.children() == []


def test_a_secret_that_cannot_be_read_ends_it_before_anything_is_sent() -> None:
    (step,) = steps(Target("http", "http://nowhere.invalid/mcp", unusable="Its token cannot be read."))
    assert (step.name, step.ok, step.says) == ("Secrets", False, "Its token cannot be read.")
