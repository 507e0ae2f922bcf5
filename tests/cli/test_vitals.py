"""What counts as a sign of life of a part of `up`, and what only looks like silence."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg
import pytest
from django.db import connection

from taskhub.cli import vitals
from taskhub.cli.vitals import Answers, Beats, Sign, Silence
from taskhub.domain.workers.writes import goodbye, heartbeat

NAME = f"{socket.gethostname()}:{os.getpid()}"
LIFE, NONE, UNKNOWN = Sign.LIFE, Sign.NONE, Sign.UNKNOWN


def beat() -> None:
    heartbeat(NAME, slots=1, busy=0)


@pytest.mark.parametrize(
    ("signs", "silent"),
    [
        ([LIFE, NONE, NONE], False),
        ([LIFE, NONE, NONE, NONE], True),
        ([NONE] * 50, False),  # it is starting
        ([NONE] * 60, True),  # it never will
        ([UNKNOWN] * 100, False),
        ([*[NONE] * 50, LIFE, NONE, NONE], False),
        ([LIFE, NONE, NONE, LIFE, NONE, NONE], False),
        ([LIFE, NONE, NONE, *[UNKNOWN] * 50, NONE, NONE], False),  # the database was away
        ([LIFE, UNKNOWN, NONE, NONE, NONE], True),
    ],
)
def test_silence_is_so_many_looks_in_a_row_where_there_could_have_been_a_sign(signs: list[Sign], silent: bool) -> None:
    silence = Silence(3)
    assert [silence.add(sign) for sign in signs][-1] is silent


def test_a_worker_lives_while_its_heartbeat_moves(transactional_db: None) -> None:
    beats = Beats()
    assert beats.look(os.getpid()) is NONE, "it has not begun"
    beat()
    assert beats.look(os.getpid()) is NONE, "this may be an old one"
    assert beats.look(os.getpid()) is NONE
    beat()
    assert beats.look(os.getpid()) is LIFE
    assert beats.look(os.getpid()) is NONE
    assert beats.look(os.getpid() + 1) is NONE
    goodbye(NAME)
    assert beats.look(os.getpid()) is UNKNOWN, "it is ending"


@pytest.mark.parametrize("how", ["away", "locked", "read only"])
def test_nobody_is_silent_while_the_database_takes_no_heartbeats(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    beat()
    beats = Beats()
    assert [beats.look(os.getpid()), beats.look(os.getpid())] == [NONE, NONE]
    with contextlib.ExitStack() as until:
        if how == "away":
            connection.close()
            monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
        elif how == "locked":
            other = until.enter_context(_beside())
            other.execute("SELECT 1 FROM worker FOR UPDATE")
        else:
            with connection.cursor() as cursor:
                cursor.execute("SET default_transaction_read_only = on")
        assert beats.look(os.getpid()) is UNKNOWN
    monkeypatch.undo()
    connection.close()
    assert [beats.look(os.getpid()), beats.look(os.getpid())] == [NONE, NONE], "counted anew"


def _beside() -> contextlib.AbstractContextManager[psycopg.Connection]:
    """Another session, in a transaction."""
    connection.ensure_connection()
    parameters = connection.get_connection_params()
    known = {key: parameters[key] for key in ("dbname", "user", "password", "host", "port") if parameters.get(key)}
    return psycopg.connect(**known)


@pytest.fixture
def web() -> Iterator[HTTPServer]:
    """Something that answers, with the status that it is told."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/healthz" and self.headers["Host"] == "hub.example"
            self.send_response(200 if found else 400)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_web_process_lives_while_it_answers(
    web: HTTPServer, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{silent_port}")
    monkeypatch.setattr(vitals, "PROBE_SECONDS", 0.2)
    assert Answers("127.0.0.1", web.server_port, "hub.example").look(1) is LIFE
    assert Answers("127.0.0.1", web.server_port, "another.example").look(1) is NONE
    assert Answers("127.0.0.1", silent_port, "hub.example").look(1) is NONE
    with socket.create_server(("127.0.0.1", 0)) as mute:  # as a stopped process: taken, and never answered
        assert Answers("127.0.0.1", mute.getsockname()[1], "hub.example").look(1) is NONE
