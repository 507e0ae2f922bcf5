"""What is queued, by client and tool: a claim steps over what waits for a server without room. The old index stays
until the new one is there, and processes of the release before claim with either."""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0018_closed_questions")]

    operations = [
        BuildIndex(
            "task",
            models.Index(
                fields=["context", "tool", "runnable_at", "id"],
                condition=models.Q(state="queued"),
                name="task_runnable_by_tool",
            ),
        ),
        RemoveIndexConcurrently("task", "task_runnable_by_context"),
    ]
