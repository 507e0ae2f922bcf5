"""Of several streams that wait for one task's result, one tells how it goes. What it loaded lives in
`store/sql/functions` now."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("store", "0008_claims")]

    operations = []
