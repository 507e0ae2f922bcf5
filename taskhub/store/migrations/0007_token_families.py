"""Which tokens belong to one sign-in of a program, where a consent has led before, and hints when a
person's standing changes."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0006_oauth"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        migrations.swappable_dependency(settings.OAUTH2_PROVIDER_APPLICATION_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="consent",
            name="targets",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=300), default=list, size=None
            ),
        ),
        migrations.CreateModel(
            name="TokenFamily",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("family", models.UUIDField(unique=True)),
                ("code_checksum", models.CharField(max_length=64, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), size=None),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "registration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="families",
                        to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL,
                    ),
                ),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table": "token_family",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("code_checksum__regex", "^[0-9a-f]{64}$")), name="token_family_hashed"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scopes__len__gt", 0)), name="token_family_of_something"
                    ),
                ],
            },
        ),
    ]
