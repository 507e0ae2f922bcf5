"""An index for what is queued and may expire: the sweep looked through the whole queue."""

from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0021_troubled_by_context")]

    operations = [
        BuildIndex(
            "task",
            models.Index(fields=["expires_at"], condition=models.Q(state="queued"), name="task_unrun"),
        ),
    ]
