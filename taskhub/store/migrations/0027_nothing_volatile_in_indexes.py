"""Indexes of tasks that workers hold, and of what changed in a session, without the columns that change while a task
runs. Those they replace go when the functions that used them have (`store/sql/functions/gone.sql`)."""

from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0026_event_parts")]

    operations = [
        BuildIndex(
            "task",
            models.Index(
                fields=["id"],
                condition=models.Q(models.Q(("worker", ""), _negated=True), ("ended_at__isnull", True)),
                name="task_held",
            ),
        ),
        BuildIndex(
            "task",
            models.Index(
                fields=["session", "ended_at"],
                condition=models.Q(("session__isnull", False)),
                name="task_ended_by_session",
            ),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("task", "task_leased"),
                migrations.RemoveIndex("task", "task_by_session"),
            ]
        ),
    ]
