"""A tenant keeps an admin; who was given a password by somebody else has to choose their own."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0014_sign_ins")]

    operations = [
        migrations.AddField("Membership", "password_due", models.BooleanField(db_default=False, default=False)),
        migrations.RunSQL((SQL / "0012_people.sql").read_text(), migrations.RunSQL.noop),
    ]
