"""Several chores in a row, of which one may fail without the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from taskhub.core.errors import Unavailable
from taskhub.store.call import explained

logger = logging.getLogger(__name__)


class ChoresFailed(Exception):
    """Some chores of a run failed; its message names them."""


def run_each(chores: Mapping[str, Callable[[], object]]) -> None:
    """All of them in order, by name. What one raises is logged, in a line where the database is away or too busy,
    and the next has its turn; raises `ChoresFailed` at the end."""
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
