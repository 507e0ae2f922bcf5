"""The module that Django looks for behind `ENGINE`."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError
from django.db.backends.postgresql import base
from psycopg import IsolationLevel

from taskhub.store.deadline import Overdue, Punctual, deadline


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's own, but for the class of its connections."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Punctual:
        """Without Django's pool and isolation levels, which our settings cannot ask for."""
        self.isolation_level = IsolationLevel.READ_COMMITTED
        made = Punctual.connect(**conn_params)
        made.seconds = deadline(str(self.settings_dict["OPTIONS"].get("options", "")))
        return made

    def is_usable(self) -> bool:
        """As Django's own, but raises when the database does not answer: a new connection would not help."""
        raw: Punctual = self.connection
        usable = super().is_usable()
        if raw.overdue:
            raise OperationalError("no answer to the health check") from Overdue()
        return usable
