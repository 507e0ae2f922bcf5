"""How much work something is, by the clock of its thread."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

_TRACED: Final = 3
"""How many times as long Python takes where each line is traced, as for coverage."""


def cpu_seconds(work: Callable[[], object], *, tries: int = 5, of: Callable[[Iterable[float]], float] = min) -> float:
    """What one run takes: the least of a few tries, so that what else happens, such as looking for garbage, counts only
    where it falls into all of them."""
    costs = []
    for _ in range(tries):
        began = time.thread_time()
        work()
        costs.append(time.thread_time() - began)
    return of(costs) / (1 if sys.gettrace() is None else _TRACED)
