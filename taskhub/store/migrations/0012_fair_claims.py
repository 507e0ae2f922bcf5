"""A client holds at most its share of one worker's slots. What it loaded lives in `store/sql/functions` now."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("store", "0011_indexes")]

    operations = []
