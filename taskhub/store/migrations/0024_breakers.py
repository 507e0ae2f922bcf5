"""The breaker of a server: how many calls in a row could not connect, and when one tries again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0023_calls_at_once")]

    operations = [
        migrations.AddField("server", "failures", models.IntegerField(db_default=0)),
        migrations.AddField("server", "open_since", models.DateTimeField(null=True)),
        migrations.AddField("server", "retry_at", models.DateTimeField(null=True)),
        migrations.AddField("server", "probe_until", models.DateTimeField(null=True)),
        migrations.AddConstraint(
            "server",
            models.CheckConstraint(
                condition=models.Q(
                    open_since__isnull=True, retry_at__isnull=True, probe_until__isnull=True, failures__gte=0
                )
                | models.Q(open_since__isnull=False, retry_at__isnull=False, failures__gt=0),
                name="server_breaker_whole",
            ),
        ),
    ]
