"""What the authorization server remembers, and the guard that the toolkit's tables hold no token,
code or secret in the clear, whatever a setting says."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

GUARDS = (
    ("oauth2_provider_accesstoken", "oauth_access_token_hashed", "token = ''"),
    ("oauth2_provider_refreshtoken", "oauth_refresh_token_hashed", "token = ''"),
    ("oauth2_provider_grant", "oauth_code_hashed", "code ~ '^[0-9a-f]{64}$'"),
    ("oauth2_provider_application", "oauth_secret_hashed", r"client_secret LIKE 'random\_sha256$%'"),
)


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0005_sessions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("oauth2_provider", "0022_refreshtoken_token_family_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="Application",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("blocked_at", models.DateTimeField(null=True)),
                (
                    "registration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="known_as",
                        to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL,
                    ),
                ),
                ("tenant", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.tenant")),
            ],
            options={
                "db_table": "application",
            },
        ),
        migrations.CreateModel(
            name="Consent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), size=None),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "application",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="consents", to="store.application"
                    ),
                ),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table": "consent",
            },
        ),
        migrations.AddConstraint(
            model_name="application",
            constraint=models.UniqueConstraint(fields=("tenant", "registration"), name="application_once_per_tenant"),
        ),
        migrations.AddConstraint(
            model_name="consent",
            constraint=models.UniqueConstraint(fields=("application", "user"), name="consent_one_answer"),
        ),
        migrations.AddConstraint(
            model_name="consent",
            constraint=models.CheckConstraint(condition=models.Q(("scopes__len__gt", 0)), name="consent_to_something"),
        ),
        *(
            migrations.RunSQL(
                f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({check})",
                f"ALTER TABLE {table} DROP CONSTRAINT {name}",
            )
            for table, name, check in GUARDS
        ),
    ]
