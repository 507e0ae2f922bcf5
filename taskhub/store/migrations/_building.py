"""How indexes come to tables that may be large: without a lock that anybody waits for."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from taskhub.store.deadline import unhurried


class BuildIndex(AddIndexConcurrently):
    """`AddIndexConcurrently` under no time limit, since nobody waits for it and a large table takes its
    time; and one that was interrupted, which leaves an index that is not valid, can be run again."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        limits = ("statement_timeout", "lock_timeout")
        with unhurried(schema_editor.connection), schema_editor.connection.cursor() as cursor:
            before = {}
            for limit in limits:
                cursor.execute(f"SHOW {limit}")
                before[limit] = cursor.fetchone()[0]
                cursor.execute(f"SET {limit} = 0")
            try:
                cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self.index.name}")
                super().database_forwards(app_label, schema_editor, from_state, to_state)
            finally:
                for limit, value in before.items():
                    cursor.execute(f"SET {limit} = '{value}'")
