"""What constraints the ORM cannot say, and deletes that cascade in the database."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0002_constraints"),
        ("procrastinate", "0041_post_retry_failed_job"),
    ]

    operations = [
        migrations.RunSQL((SQL / "0003_tasks.sql").read_text(), migrations.RunSQL.noop),
    ]
