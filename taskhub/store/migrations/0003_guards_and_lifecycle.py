"""Loads the guards and the lifecycle functions. The SQL files are versioned, never edited
after a release; a change is a new file and a new migration."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0002_constraints"),
        ("procrastinate", "0041_post_retry_failed_job"),
    ]

    operations = [
        migrations.RunSQL((SQL / "0001_guards.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "0002_lifecycle.sql").read_text(), migrations.RunSQL.noop),
    ]
