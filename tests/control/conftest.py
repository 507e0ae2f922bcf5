"""What tests of use cases share."""

from __future__ import annotations

from tests.store.flushing import _flush_past_the_guards

__all__ = ["_flush_past_the_guards"]
