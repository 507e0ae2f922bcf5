"""Two more indexes for what is read often: tasks whose tool reported an error, and what `tasks/list` of 2025 may show."""

from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0015_people")]

    operations = [
        BuildIndex(
            "task",
            models.Index(
                fields=["tenant", "-id"],
                condition=models.Q(state="finished", is_error=True),
                name="task_newest_with_error",
            ),
        ),
        BuildIndex(
            "task",
            models.Index(
                fields=["context", "revision", "expires_at"],
                condition=models.Q(handle=True),
                name="task_handed_out",
            ),
        ),
    ]
