"""How many calls at once a server takes is for whoever runs it to say."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0022_unrun")]

    operations = [
        migrations.AddField("server", "calls_at_once", models.IntegerField(null=True)),
        migrations.AddConstraint(
            "server",
            models.CheckConstraint(
                condition=models.Q(calls_at_once__isnull=True)
                | (models.Q(calls_at_once__range=(1, 1_000)) & ~models.Q(transport="stdio")),
                name="server_calls_at_once_range",
            ),
        ),
    ]
