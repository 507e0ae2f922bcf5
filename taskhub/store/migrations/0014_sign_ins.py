"""Browser sessions in a table of ours, found by a digest of the cookie. Who is signed in stays so: each key is
digested. Django's own table is left empty: it held what a cookie holds."""

import hashlib

import django.db.models.deletion
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import ImproperlyConfigured
from django.db import migrations, models
from django.utils import timezone


def digest_keys(apps, schema_editor):
    from django.contrib.sessions.backends.db import SessionStore

    plain, digested = apps.get_model("sessions", "Session").objects, apps.get_model("store", "SignIn")
    users = set(apps.get_model("auth", "User").objects.values_list("pk", flat=True))
    found = []
    for session in plain.filter(expire_date__gt=timezone.now()).iterator(chunk_size=1_000):
        try:
            # Whose it is stands in the signed data alone. Without the key nobody can tell: they sign in anew.
            user = int(SessionStore().decode(session.session_data).get(SESSION_KEY) or 0)
        except (ImproperlyConfigured, ValueError):
            continue
        if user in users:
            found.append(
                digested(
                    session_key=hashlib.sha256(session.session_key.encode()).hexdigest(),
                    session_data=session.session_data,
                    expire_date=session.expire_date,
                    user_id=user,
                )
            )
    digested.objects.bulk_create(found, batch_size=1_000)
    plain.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0013_decisions"),
        ("sessions", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SignIn",
            fields=[
                (
                    "session_key",
                    models.CharField(db_column="digest", max_length=64, primary_key=True, serialize=False),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "db_table": "sign_in",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("session_key__regex", "^[0-9a-f]{64}$")), name="sign_in_hashed"
                    )
                ],
            },
        ),
        migrations.RunPython(digest_keys, migrations.RunPython.noop),
    ]
