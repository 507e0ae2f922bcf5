"""What tests of rules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskhub.domain.rules import expressions

_MAX_MS = expressions.MAX_MS


@pytest.fixture(scope="module", autouse=True)
def _time_enough(request: pytest.FixtureRequest) -> Iterator[None]:
    """What expressions mean must not depend on how fast the machine is: where lines are traced on a busy one, 50 ms are
    over before a comparison of two words is. `test_expressions` tries the limit itself."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.module.__name__.endswith(".test_expressions"):
            patch.setattr(expressions, "MAX_MS", 10_000)
        yield


@pytest.fixture
def time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that expressions have in a hub."""
    monkeypatch.setattr(expressions, "MAX_MS", _MAX_MS)
