"""Indexes that keep what is read often the same at a thousand tasks and at a million."""

from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0010_tool_modes")]

    operations = [
        BuildIndex(
            "task",
            models.Index(
                fields=["context", "runnable_at", "id"],
                condition=models.Q(state="queued"),
                name="task_runnable_by_context",
            ),
        ),
    ]
