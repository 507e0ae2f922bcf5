"""Claims see a task that somebody only refers to."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0007_token_families")]

    operations = [migrations.RunSQL((SQL / "0006_claims.sql").read_text(), migrations.RunSQL.noop)]
