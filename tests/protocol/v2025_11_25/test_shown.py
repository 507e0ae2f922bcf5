"""What a call answers in the end, on the wires of sessions."""

from __future__ import annotations

import json

import pytest

from taskhub.core.states import State
from taskhub.protocol.errors import WireError
from taskhub.protocol.revisions.v2025_11_25 import shown
from tests.protocol.sep_2557.test_words import make_record


@pytest.mark.req("T25-22")
@pytest.mark.parametrize(("message", "said"), [("Not today", "Not today"), ("", "The call was cancelled")])
def test_a_plain_call_that_was_cancelled_says_why(message: str, said: str) -> None:
    answer = shown.result(make_record(State.CANCELLED, message=message), related=None)
    assert not isinstance(answer, WireError)
    assert json.loads(answer) == {"content": [{"type": "text", "text": said}], "isError": True}
