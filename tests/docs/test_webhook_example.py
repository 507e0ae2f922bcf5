"""The receiver of docs/use/notifications.md, as it stands there, and the tables beside it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from taskhub.domain.notices.kinds import TEST, Kind
from taskhub.domain.notices.outbox import PAUSES
from taskhub.notify.webhooks.signatures import signatures

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "use" / "notifications.md").read_text(encoding="utf-8")
SECRET, OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def example() -> Callable[..., bool]:
    (text,) = re.findall(r"```python\n(.*?)\n```", PAGE, re.DOTALL)
    assert len(text.splitlines()) <= 15
    names: dict[str, Any] = {}
    exec(text, names)
    found: Callable[..., bool] = names["verify"]
    return found


def test_it_verifies_as_the_published_library_does() -> None:
    verify, body = example(), '{"type":"webhook.test","data":{"webhook":"ü"}}'
    now = int(time.time())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": signatures([OTHER, SECRET], "msg_1", now, body),
    }
    Webhook(SECRET).verify(body, headers)
    assert verify(SECRET, headers, body.encode())
    assert verify(OTHER, headers, body.encode())
    old = now - 3_600
    for changed in (
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": str(now - 1)},
        {"webhook-timestamp": str(old), "webhook-signature": signatures([SECRET], "msg_1", old, body)},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "é"},
        {"webhook-timestamp": "now"},
    ):
        assert not verify(SECRET, headers | changed, body.encode()), changed
    assert not verify(SECRET, headers, body.encode() + b" ")
    assert not verify(SECRET, {}, body.encode())


def test_the_page_names_every_type_and_pause() -> None:
    told = re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", PAGE, re.MULTILINE)
    assert told == [*Kind, TEST]
    assert PAUSES == (5, 60, 300, 1_800, 7_200, 18_000, 28_800, 28_800)
    assert "after 5 seconds, 1, 5 and 30 minutes, 2, 5, 8 and 8 hours" in PAGE
