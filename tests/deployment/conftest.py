"""The hub of the session, for files that leave it as they found it; the others start one of their own."""

from __future__ import annotations

from tests.support.fixtures import hub

__all__ = ["hub"]
