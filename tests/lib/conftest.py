"""Fixtures of the library's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskhub.lib.lanes import Lanes


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    made = Lanes(2, name="test")
    yield made
    made.close()
