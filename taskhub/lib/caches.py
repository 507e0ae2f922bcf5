"""A cache, in the process, of values that were read lately."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Keeps at most `most` values, each for `seconds`. When it is full, a new value pushes out the oldest. `get` takes
    no lock, so an event loop may call it. If `forget` is called while a value is being read from its source, that value
    is not stored."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds = seconds
        self.most = most
        self._values: dict[K, tuple[float, V]] = {}
        self._forgotten = 0
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value; `None` if there is none, or it has expired."""
        entry = self._values.get(key)
        return entry[1] if entry is not None and entry[0] > time.monotonic() else None

    def since(self) -> int:
        """A number to pass to `keep` as `since`. Call this before the value is read from its source."""
        return self._forgotten

    def keep(self, key: K, value: V, since: int) -> None:
        """Keep the value, unless `forget` was called after `since()` returned `since`."""
        with self._changing:
            if since != self._forgotten:
                return
            self._values.pop(key, None)  # inserted again at the end: the first key is always the oldest
            while len(self._values) >= self.most:
                del self._values[next(iter(self._values))]
            self._values[key] = (time.monotonic() + self.seconds, value)

    def forget(self, which: Callable[[V], bool] = lambda value: True) -> None:
        """Drop all values, or those for which `which(value)` is true. A value that is being read from its source
        meanwhile will not be kept."""
        with self._changing:
            self._forgotten += 1
            for key in [key for key, (_, value) in self._values.items() if which(value)]:
                del self._values[key]
