"""No index of tasks by their tool alone: nothing looks for them so and no tool is ever deleted, but each task
wrote three entries into it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # dropped beside what runs

    dependencies = [("store", "0019_runnable_by_tool")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "DROP INDEX CONCURRENTLY IF EXISTS task_tool_id_82475f9e",
                    "CREATE INDEX CONCURRENTLY task_tool_id_82475f9e ON task (tool_id)",
                )
            ],
            state_operations=[
                migrations.AlterField(
                    "task",
                    "tool",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.tool"),
                )
            ],
        ),
    ]
