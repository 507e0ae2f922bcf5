"""How long calls took and waited, by server."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0027_nothing_volatile_in_indexes")]

    operations = [
        migrations.CreateModel(
            "Timing",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("server", models.ForeignKey("store.server", django.db.models.deletion.CASCADE)),
                ("course", models.CharField(max_length=16)),
                ("counts", django.contrib.postgres.fields.ArrayField(models.BigIntegerField())),
                ("seconds", models.FloatField()),
            ],
            options={"db_table": "timing"},
        ),
        migrations.AddConstraint("timing", models.UniqueConstraint(fields=["server", "course"], name="timing_once")),
        migrations.AddConstraint(
            "timing",
            models.CheckConstraint(
                condition=models.Q(
                    course__in=[
                        "waited",
                        "finished",
                        "error",
                        "asked",
                        "faulted",
                        "timed_out",
                        "cancelled",
                        "given_back",
                        "lost",
                    ]
                ),
                name="timing_course_known",
            ),
        ),
        migrations.AddConstraint(
            "timing", models.CheckConstraint(condition=models.Q(counts__len=17), name="timing_counts_whole")
        ),
        # Nobody misses it after a crash, and nobody waits for its log.
        migrations.RunSQL("ALTER TABLE timing SET UNLOGGED", migrations.RunSQL.noop),
    ]
