"""A client holds at most its share of one worker's slots. `claim_tasks_v2` stays for a release."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0011_indexes")]

    operations = [migrations.RunSQL((SQL / "0009_claims.sql").read_text(), migrations.RunSQL.noop)]
