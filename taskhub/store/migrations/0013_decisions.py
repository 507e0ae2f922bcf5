"""Digests of what was called and decided; answers that come with a call; a look at each task before it runs."""

from pathlib import Path

from django.db import migrations, models

import taskhub.store.fields

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0012_fair_claims")]

    operations = [
        migrations.AddField("task", "tool_digest", models.BinaryField(max_length=32, null=True)),
        migrations.AddField("question", "definition", taskhub.store.fields.JsonText(null=True)),
        migrations.AddField("question", "definition_digest", models.BinaryField(max_length=32, null=True)),
        migrations.RunSQL((SQL / "0010_decisions.sql").read_text(), migrations.RunSQL.noop),
    ]
