"""What a tool says of itself is read anew (`execution.taskSupport` is not about us), and a mode of its own for
tools that run as a task or not at all."""

from pathlib import Path

from django.db import migrations, models
from django.db.models import Q

SQL = Path(__file__).parent / "sql"
MODES = ["auto", "always", "never", "required"]


class Migration(migrations.Migration):
    dependencies = [("store", "0009_streams")]

    operations = [
        migrations.RemoveConstraint("Tool", "tool_mode_known"),
        migrations.AddConstraint(
            "Tool",
            models.CheckConstraint(
                condition=Q(policy_mode__isnull=True) | Q(policy_mode__in=MODES), name="tool_mode_known"
            ),
        ),
        migrations.RunSQL((SQL / "0010_tool_modes.sql").read_text(), migrations.RunSQL.noop),
        migrations.AddConstraint(
            "Tool",
            models.CheckConstraint(
                condition=Q(hint_mode__isnull=True) | Q(hint_mode__in=MODES), name="tool_hint_known"
            ),
        ),
    ]
