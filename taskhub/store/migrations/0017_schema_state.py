"""What `store.functions` has loaded. No model: it is written by `migrate` alone."""

from django.db import migrations

TABLE = """
CREATE TABLE schema_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    works_with integer NOT NULL,
    functions text NOT NULL,
    triggers text NOT NULL,
    live text NOT NULL,
    loaded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO schema_state (version, works_with, functions, triggers, live) VALUES (0, 0, '', '', '');
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0016_long_history")]

    operations = [migrations.RunSQL(TABLE, "DROP TABLE schema_state")]
