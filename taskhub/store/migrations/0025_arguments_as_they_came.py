"""Arguments are kept as they came: in the order, with the zeros, exponents and characters that they came with, which
`jsonb` changes. Those of tasks before stay where they are, for a table of any length."""

from django.db import migrations, models

from taskhub.store.fields import JsonText


class Migration(migrations.Migration):
    dependencies = [("store", "0024_breakers")]

    operations = [
        migrations.AddField("task", "arguments_json", JsonText(null=True)),
        migrations.AlterField("task", "arguments", models.JSONField(null=True)),
    ]
