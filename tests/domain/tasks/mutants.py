"""Faults to seed into the functions of the database, which the machine must find."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection


@dataclass(frozen=True)
class Mutant:
    """A function and what is cut out of it (regular expression: replacement)."""

    function: str
    cut: str
    put: str = ""


LATE = Mutant(
    "finish_tasks",
    r"AND \(th_held.*?th_unruled\(w\.id\)\)\s+FOR UPDATE",
    "FOR UPDATE",
)
NO_TERMINAL_GUARD = Mutant("task_guard", r"IF OLD\.ended_at IS NOT NULL AND", "IF false AND")

MUTANTS: dict[str, list[Mutant]] = {
    "a zombie may finish": [
        Mutant("finish_tasks", r"AND w\.lease_epoch = g\.epoch\s+AND \(th_held.*?th_unruled\(w\.id\)\)\s+FOR", "FOR"),
    ],
    "a zombie may fault": [Mutant("fault", r"AND lease_epoch = p_epoch\s+AND", "AND")],
    "a zombie may release": [Mutant("release", r"AND lease_epoch = p_epoch AND", "AND")],
    "a closed question takes answers": [Mutant("answer", r"IF asked\.state <> 'open' THEN\s+RETURN 'late';\s+END IF;")],
    "ended tasks are not guarded": [NO_TERMINAL_GUARD],
    "a key is everybody's": [
        Mutant("create_tasks", r"t\.context_id = i\.context AND t\.idempotency_key", "t.idempotency_key"),
    ],
    "a key hides other arguments": [Mutant("create_tasks", r"t\.arguments_digest <> decode\(i\.digest, 'hex'\) OR")],
    "a result after the cancellation": [LATE],
    "a result after the cancellation, and no guard": [LATE, NO_TERMINAL_GUARD],
    "a cancellation of ended tasks": [Mutant("request_cancel", r"held\.ended_at IS NOT NULL OR")],
    "a cancellation leaves its questions open": [
        Mutant("request_cancel", r"UPDATE question.*?state = 'open';", ""),
    ],
    "a claim keeps its epoch": [Mutant("claim_tasks", r"lease_epoch = lease_epoch \+ 1, ")],
    "a released task that was to be cancelled waits for ever": [
        Mutant("release", r"IF held\.cancel_requested_at IS NOT NULL THEN", "IF false THEN"),
    ],
    "every lost task runs again": [
        Mutant("th_lose", r"t\.at_least_once AND t\.crashes \+ 1 < t\.max_attempts", "true")
    ],
    "asking does not change the state": [Mutant("ask", r"SET state = 'input_required', message", "SET message")],
    "an answer leaves the task waiting": [Mutant("th_go_on", r"IF left_open > 0 THEN", "IF true THEN")],
    "the version may stand still": [
        Mutant("task_guard", r"NEW\.version := OLD\.version \+ 1;", "NEW.version := OLD.version;"),
    ],
    "changes leave no event": [Mutant("task_record", r"WHERE verb IS NOT NULL", "WHERE false")],
    "an epoch may jump": [Mutant("task_guard", r"IF NEW\.lease_epoch < OLD\.lease_epoch OR", "IF false AND")],
}


def _definition(function: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef(%s::regproc)", [function])
        return str(cursor.fetchone()[0])


def _install(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


@contextmanager
def installed(name: str) -> Iterator[None]:
    """The functions with that fault in them, and as they were afterwards."""
    with cut(*MUTANTS[name]):
        yield


@contextmanager
def cut(*mutants: Mutant) -> Iterator[None]:
    """The functions with these cuts, and as they were afterwards."""
    whole = {mutant.function: _definition(mutant.function) for mutant in mutants}
    try:
        for mutant in mutants:
            text, cuts = re.subn(
                mutant.cut, lambda _, put=mutant.put: put, _definition(mutant.function), count=1, flags=re.S
            )
            assert cuts == 1, "the function has changed; so must the mutant"
            _install(text)
        yield
    finally:
        for text in whole.values():
            _install(text)
    assert {function: _definition(function) for function in whole} == whole
