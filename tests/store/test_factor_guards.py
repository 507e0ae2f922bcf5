"""An approval of what needs a second factor has one, whatever program decides."""

from __future__ import annotations

import json

from taskhub.core.states import State
from tests.store import raw as sql
from tests.store.raw import Raw, refused


def decide(raw: Raw, question: int, verdict: str, factor: str) -> int:
    given = {"question_id": question, "actor": "a", "verdict": verdict, "arguments_digest": bytes(32), "door": "sql"}
    return sql.insert(raw, "decision", second_factor=factor, **given)


def test_nobody_approves_without_it_where_it_is_wanted(raw: Raw) -> None:
    of = sql.owner(raw)
    for decided, wanted in (({"second_factor": True}, True), ({"second_factor": False}, False), ({}, False)):
        task = sql.task(raw, of, State.INPUT_REQUIRED)
        question = sql.question(raw, task, of.tenant, kind="approval", params=json.dumps({"decided": decided}))
        if wanted:
            with refused("TH016"), raw.transaction():
                decide(raw, question, "approve", "")
        assert decide(raw, question, "reject", "")
        assert decide(raw, question, "approve", "totp" if wanted else "")
