"""A tenant keeps an admin; who was given a password by somebody else has to choose their own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0014_sign_ins")]

    operations = [
        migrations.AddField("Membership", "password_due", models.BooleanField(db_default=False, default=False)),
    ]
