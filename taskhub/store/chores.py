"""Runs several chores one after the other; one that fails does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from taskhub.core.errors import Unavailable
from taskhub.store.call import explained

logger = logging.getLogger(__name__)


class ChoresFailed(Exception):
    """Some chores of a run failed; its message names them."""


def run_each(chores: Mapping[str, Callable[[], object]]) -> None:
    """Run all chores, which the mapping has by name, in its order. If a chore raises an exception, that is logged (in
    one line if the database is away or too busy), and the next chore is run. Raises `ChoresFailed` at the end if any
    failed."""
    failed = []
    for name, chore in chores.items():
        try:
            chore()
        except Exception as error:
            known = explained(error)
            if isinstance(known, Unavailable):
                logger.warning("%s: %s", name, known)
            else:
                logger.exception("%s: this chore failed", name)
            failed.append(name)
    if failed:
        raise ChoresFailed(", ".join(failed))
