"""What a tool says of itself is read anew: `execution.taskSupport` is not about us."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parents[1] / "sql"


class Migration(migrations.Migration):
    dependencies = [("store", "0009_streams")]

    operations = [migrations.RunSQL((SQL / "0008_tool_modes.sql").read_text(), migrations.RunSQL.noop)]
