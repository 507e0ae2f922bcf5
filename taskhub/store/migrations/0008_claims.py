"""Claims see a task that somebody only refers to. What it loaded lives in `store/sql/functions` now."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("store", "0007_token_families")]

    operations = []
