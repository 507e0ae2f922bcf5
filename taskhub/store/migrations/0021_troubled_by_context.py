"""An index for what went wrong of a client: its list under a tab was sought in everything that went wrong."""

from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0020_no_index_by_tool")]

    operations = [
        BuildIndex(
            "task",
            models.Index(
                fields=["context", "state", "-id"],
                condition=models.Q(("is_error", True), ("state__in", ["faulted", "cancelled"]), _connector="OR"),
                name="task_troubled_by_context",
            ),
        ),
    ]
