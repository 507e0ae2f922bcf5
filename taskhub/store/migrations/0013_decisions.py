"""Digests of what was called and decided; answers that come with a call; a look at each task before it runs."""

from django.db import migrations, models

import taskhub.store.fields


class Migration(migrations.Migration):
    dependencies = [("store", "0012_fair_claims")]

    operations = [
        migrations.AddField("task", "tool_digest", models.BinaryField(max_length=32, null=True)),
        migrations.AddField("question", "definition", taskhub.store.fields.JsonText(null=True)),
        migrations.AddField("question", "definition_digest", models.BinaryField(max_length=32, null=True)),
    ]
