"""A claim locks no more than it takes, and tells the client of each task. `claim_tasks_v3` stays for a release."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0016_long_history")]

    operations = [migrations.RunSQL((SQL / "0013_claims.sql").read_text(), migrations.RunSQL.noop)]
