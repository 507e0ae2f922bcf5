"""What a call says about itself is read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.protocol.calls import IDEMPOTENCY_KEY, idempotency_key


@pytest.mark.req("B26-28")
@pytest.mark.parametrize("key", ["k", "k" * 255, "a key, with ~ and blanks"])
def test_a_key_is_taken_as_it_is(key: str) -> None:
    assert idempotency_key({IDEMPOTENCY_KEY: key}) == key


@pytest.mark.req("B26-28")
def test_no_key_is_none() -> None:
    assert idempotency_key({}) is None
    assert idempotency_key({IDEMPOTENCY_KEY: None}) is None


@pytest.mark.req("B26-28")
@pytest.mark.parametrize("key", ["", "k" * 256, "k\u00e4se", "line\nbreak", "\x7f", 7, True, ["k"], {"k": 1}])
def test_what_is_no_key_is_refused(key: Any) -> None:
    with pytest.raises(Invalid, match="1 to 255 printable ASCII characters"):
        idempotency_key({IDEMPOTENCY_KEY: key})
