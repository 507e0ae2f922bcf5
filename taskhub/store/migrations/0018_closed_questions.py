"""An index for the questions that were decided last: the inbox looked through all of them."""

from django.db import migrations, models

from taskhub.store.migrations._building import BuildIndex


class Migration(migrations.Migration):
    atomic = False  # built beside what runs

    dependencies = [("store", "0017_schema_state")]

    operations = [
        BuildIndex(
            "question",
            models.Index(
                fields=["tenant", "-closed_at", "-id"],
                condition=models.Q(closed_at__isnull=False),
                name="question_closed",
            ),
        ),
    ]
