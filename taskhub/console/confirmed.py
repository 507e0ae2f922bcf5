"""When the person of a browser session confirmed their second factor there, as the session keeps it."""

from __future__ import annotations

import time
from typing import Any, Final

from taskhub.core.records import Confirmed

_KEY: Final = "second_factor"


def remember(session: Any, user_id: int, factor: int) -> Confirmed:
    """Keep in the session that the user confirmed the factor with this record just now."""
    found = Confirmed(factor, time.time())
    session[_KEY] = {"user": user_id, "factor": found.factor, "at": found.at}
    return found


def remembered(session: Any, user_id: int) -> Confirmed | None:
    """The confirmation that `remember` kept of this user; `None` if there is none."""
    found = session.get(_KEY)
    if not isinstance(found, dict) or found.get("user") != user_id:
        return None
    return Confirmed(int(found["factor"]), float(found["at"]))
