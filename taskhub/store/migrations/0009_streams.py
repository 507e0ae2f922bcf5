"""Of several streams that wait for one task's result, one tells how it goes."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0008_claims")]

    operations = [migrations.RunSQL((SQL / "0007_streams.sql").read_text(), migrations.RunSQL.noop)]
