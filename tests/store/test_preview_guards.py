"""Nobody approves a call before its preview has ended, whatever program asks; and then the preview stays as it is."""

from __future__ import annotations

import pytest

from taskhub.core.states import State
from tests.store import raw as sql
from tests.store.raw import Raw, refused, violates

END = "UPDATE preview SET ended_at = clock_timestamp(), digest = %s, text = 'shown' WHERE question_id = %s"
SHOWN = b"d" * 32


def asked(raw: Raw, *, ended: bool = False) -> int:
    """A question about a call that has a preview."""
    of = sql.owner(raw)
    task = sql.task(raw, of, State.INPUT_REQUIRED)
    question = sql.question(raw, task, of.tenant, kind="approval")
    raw.execute("INSERT INTO preview (question_id) VALUES (%s)", (question,))
    if ended:
        raw.execute(END, (SHOWN, question))
    return question


def decide(raw: Raw, question: int, verdict: str, preview: bytes | None) -> int:
    given = {"question_id": question, "actor": "a", "verdict": verdict, "arguments_digest": bytes(32), "door": "sql"}
    return sql.insert(raw, "decision", preview_digest=preview, **given)


@pytest.mark.parametrize("preview", [None, SHOWN])
def test_nobody_approves_while_it_runs(raw: Raw, preview: bytes | None) -> None:
    question = asked(raw)
    with refused("TH013"), raw.transaction():
        decide(raw, question, "approve", preview)
    assert decide(raw, question, "reject", None)


def test_who_approves_names_what_it_showed(raw: Raw) -> None:
    question = asked(raw, ended=True)
    for other in (None, b"x" * 32):
        with refused("TH013"), raw.transaction():
            decide(raw, question, "approve", other)
    assert decide(raw, question, "approve", SHOWN)


def test_what_has_no_preview_shows_none(raw: Raw) -> None:
    of = sql.owner(raw)
    question = sql.question(raw, sql.task(raw, of, State.INPUT_REQUIRED), of.tenant, kind="approval")
    assert decide(raw, question, "approve", None)
    with refused("TH013"):
        decide(raw, question, "approve", SHOWN)


@pytest.mark.parametrize("change", ["text = 'other'", "ended_at = NULL, digest = NULL, text = NULL", "tries = 9"])
def test_what_it_has_shown_stays(raw: Raw, change: str) -> None:
    question = asked(raw, ended=True)
    with refused("TH013"):
        raw.execute(f"UPDATE preview SET {change} WHERE question_id = %s", (question,))


def test_it_goes_with_its_question_only(raw: Raw) -> None:
    question = asked(raw)
    with refused("TH008"):
        raw.execute("DELETE FROM preview WHERE question_id = %s", (question,))


@pytest.mark.parametrize("change", ["text = 'x'", "digest = sha256('x')", "ended_at = now()"])
def test_it_shows_something_when_it_ends_and_not_before(raw: Raw, change: str) -> None:
    question = asked(raw)
    with violates("preview_digest_iff_ended"):
        raw.execute(f"UPDATE preview SET {change} WHERE question_id = %s", (question,))
