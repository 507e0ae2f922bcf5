"""All tables. What Django has no words for is in `0001_initial.sql`; functions and triggers are loaded beside it
(`store/functions.py`). Written by makemigrations, but for the events."""

import datetime
from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import taskhub.core.timings
import taskhub.store.fields

SQL = Path(__file__).with_suffix(".sql")


def add_foreign_keys(apps, schema_editor):
    """Called here and not after the last operation, because later operations change how foreign keys cascade."""
    for statement in schema_editor.deferred_sql:
        schema_editor.execute(statement)
    schema_editor.deferred_sql.clear()


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        # Their tables are referred to and guarded.
        ("mfa", "0003_authenticator_type_uniq"),
        ("oauth2_provider", "0022_refreshtoken_token_family_index"),
        ("procrastinate", "0041_post_retry_failed_job"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuthContext",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.CharField(db_default="", max_length=255)),
                ("subject", models.CharField(max_length=255)),
                ("client_id", models.CharField(db_default="", max_length=255)),
                ("name", models.CharField(max_length=128)),
                ("client_info", models.JSONField(db_default={}, default=dict)),
                ("client_capabilities", models.JSONField(db_default={}, default=dict)),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("disabled_at", models.DateTimeField(null=True)),
                ("patience_ms", models.IntegerField(null=True)),
                ("hub_tools", models.BooleanField(null=True)),
            ],
            options={
                "db_table": "auth_context",
            },
        ),
        migrations.AddConstraint(
            model_name="authcontext",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("patience_ms__isnull", True), ("patience_ms__range", (1000, 3600000)), _connector="OR"
                ),
                name="auth_context_patience_range",
            ),
        ),
        migrations.CreateModel(
            name="LearnedPatience",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("program", models.CharField(max_length=128)),
                ("patience_ms", models.IntegerField()),
                ("left_after_ms", models.BigIntegerField()),
                ("leaves", models.IntegerField()),
                ("learned_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "context",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.authcontext",
                    ),
                ),
            ],
            options={
                "db_table": "learned_patience",
                "constraints": [
                    models.UniqueConstraint(fields=("context", "program"), name="learned_patience_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("patience_ms__range", (1000, 3600000))), name="learned_patience_range"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("from_xid", models.BigIntegerField()),
                ("to_xid", models.BigIntegerField(unique=True)),
                ("count", models.IntegerField()),
                (
                    "event_ids",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                ("leaves", models.BinaryField()),
                ("root", models.BinaryField(max_length=32)),
                ("previous", models.BinaryField(max_length=32)),
                ("signature", models.BinaryField(max_length=64)),
                ("key_id", models.CharField(max_length=16)),
                ("at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
            ],
            options={
                "db_table": "seal",
            },
        ),
        migrations.CreateModel(
            name="FeedConsumer",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("xid", models.BigIntegerField()),
                ("event_id", models.BigIntegerField()),
                ("moved_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
            ],
            options={
                "db_table": "feed_consumer",
            },
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=128)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "tenant",
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=128, unique=True)),
                ("host", models.CharField(max_length=255)),
                ("pid", models.IntegerField()),
                ("version", models.CharField(max_length=32)),
                ("slots", models.IntegerField()),
                ("busy", models.IntegerField(db_default=0)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("heartbeat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("stopped_at", models.DateTimeField(null=True)),
                ("in_place", models.BooleanField(db_default=False)),
            ],
            options={
                "db_table": "worker",
            },
        ),
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
            name="Session",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=64)),
                ("version", models.CharField(max_length=16)),
                ("client_info", models.JSONField(db_default={})),
                ("client_capabilities", models.JSONField(db_default={})),
                ("log_level", models.CharField(db_default="debug", max_length=16)),
                ("profile", models.CharField(db_default="", max_length=16)),
                (
                    "resources",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), db_default=[], size=None),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "context",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.authcontext"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.tenant"),
                ),
            ],
            options={
                "db_table": "session",
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=64)),
                ("tool_name", models.CharField(max_length=160)),
                ("revision", models.CharField(max_length=32)),
                ("arguments", taskhub.store.fields.JsonText()),
                ("arguments_digest", models.BinaryField(max_length=32)),
                ("tool_digest", models.BinaryField(max_length=32, null=True)),
                ("answers", models.JSONField(null=True)),
                ("decided", models.JSONField(null=True)),
                ("edited", taskhub.store.fields.JsonText(null=True)),
                ("state", models.CharField(db_default="queued", max_length=16)),
                ("message", models.CharField(db_default="", max_length=1024)),
                ("progress", models.FloatField(null=True)),
                ("total", models.FloatField(null=True)),
                ("result", models.TextField(null=True)),
                ("error", models.TextField(null=True)),
                ("is_error", models.BooleanField(db_default=False)),
                ("ended_as", models.CharField(db_default="", max_length=16)),
                ("upstream_state", models.TextField(null=True)),
                ("lease_epoch", models.IntegerField(db_default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                ("worker", models.CharField(db_default="", max_length=128)),
                ("crashes", models.IntegerField(db_default=0)),
                ("max_attempts", models.IntegerField(db_default=3)),
                ("at_least_once", models.BooleanField(db_default=False)),
                ("runnable_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("run_seconds", models.IntegerField(db_default=900)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("ttl_ms", models.BigIntegerField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("poll_interval_ms", models.IntegerField(db_default=1000)),
                ("last_polled_at", models.DateTimeField(null=True)),
                ("idempotency_key", models.CharField(max_length=255, null=True)),
                ("client_info", models.JSONField(db_default={})),
                ("client_capabilities", models.JSONField(db_default={})),
                ("trace", models.JSONField(db_default={})),
                ("version", models.IntegerField(db_default=1)),
                ("request_id", models.TextField(null=True)),
                ("progress_token", models.TextField(null=True)),
                ("handle", models.BooleanField(db_default=False)),
                ("client_task_id", models.TextField(null=True)),
                ("keep_ms", models.BigIntegerField(null=True)),
                ("join_seconds", models.IntegerField(null=True)),
                ("waiter", models.CharField(max_length=32, null=True)),
                ("left_at", models.DateTimeField(null=True)),
                (
                    "context",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.authcontext"
                    ),
                ),
                (
                    "rerun_of",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reruns",
                        to="store.task",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to="store.session"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.tenant"),
                ),
            ],
            options={
                "db_table": "task",
            },
        ),
        migrations.CreateModel(
            name="Stream",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=8)),
                ("request_id", models.TextField(db_default="")),
                ("progress_token", models.TextField(null=True)),
                ("attach", models.IntegerField(db_default=1)),
                ("attached", models.BooleanField(db_default=True)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("closed_at", models.DateTimeField(null=True)),
                ("cancelled", models.BooleanField(db_default=False)),
                ("session", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.session")),
                ("task", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.task")),
            ],
            options={
                "db_table": "stream",
            },
        ),
        migrations.CreateModel(
            name="Question",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64)),
                ("upstream_key", models.CharField(db_default="", max_length=256)),
                ("kind", models.CharField(max_length=16)),
                ("params", taskhub.store.fields.JsonText()),
                ("definition", taskhub.store.fields.JsonText(null=True)),
                ("definition_digest", models.BinaryField(max_length=32, null=True)),
                ("call_digest", models.BinaryField(max_length=32, null=True)),
                ("alike", models.BinaryField(max_length=32, null=True)),
                ("audience", models.CharField(max_length=8)),
                ("group", models.CharField(db_default="", max_length=64)),
                ("quorum", models.IntegerField(db_default=1)),
                ("live", models.BooleanField(db_default=False)),
                ("state", models.CharField(db_default="open", max_length=12)),
                ("response", models.TextField(null=True)),
                ("error", models.TextField(null=True)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("called_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("remind_at", models.DateTimeField(null=True)),
                ("reminded_at", models.DateTimeField(null=True)),
                (
                    "handed_to",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("handed_group", models.CharField(db_default="", max_length=64)),
                (
                    "handed_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "about",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.question",
                    ),
                ),
                (
                    "asked_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="questions",
                        to="store.task",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.tenant"),
                ),
            ],
            options={
                "db_table": "question",
            },
        ),
        migrations.CreateModel(
            name="Outbound",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step", models.IntegerField(db_default=0)),
                ("page", models.BooleanField(db_default=False)),
                ("method", models.CharField(max_length=32)),
                ("params", taskhub.store.fields.JsonText()),
                ("state", models.CharField(db_default="open", max_length=12)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("sent_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "question",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.question"),
                ),
                (
                    "stream",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to="store.stream"),
                ),
                ("task", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.task")),
            ],
            options={
                "db_table": "outbound",
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("worker", models.CharField(max_length=128)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(db_default="", max_length=16)),
                ("error", models.TextField(db_default="")),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="store.task",
                    ),
                ),
            ],
            options={
                "db_table": "attempt",
            },
        ),
        migrations.CreateModel(
            name="TaskLog",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.CharField(max_length=16)),
                ("text", models.CharField(max_length=4096)),
                ("progress", models.FloatField(null=True)),
                ("total", models.FloatField(null=True)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lines", to="store.task"
                    ),
                ),
            ],
            options={
                "db_table": "task_log",
            },
        ),
        migrations.CreateModel(
            name="Server",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64)),
                ("transport", models.CharField(max_length=8)),
                ("target", models.TextField()),
                ("sealed_target", models.BinaryField(null=True)),
                ("credentials", models.BinaryField(null=True)),
                ("headers", models.JSONField(db_default={}, default=dict)),
                ("environment", models.JSONField(db_default={}, default=dict)),
                ("directory", models.TextField(blank=True, db_default="")),
                ("own_process", models.BooleanField(db_default=False)),
                ("connect_seconds", models.IntegerField(null=True)),
                ("prefix", models.CharField(blank=True, db_default="", max_length=64)),
                ("review", models.BooleanField(db_default=False)),
                ("by_file", models.BooleanField(db_default=False)),
                ("calls_at_once", models.IntegerField(null=True)),
                ("shared", models.BooleanField(db_default=False)),
                ("enabled", models.BooleanField(db_default=True)),
                ("disabled_reason", models.CharField(blank=True, db_default="", max_length=200)),
                ("state", models.CharField(db_default="unknown", max_length=16)),
                ("problem", models.TextField(blank=True, db_default="")),
                ("protocol", models.CharField(blank=True, db_default="", max_length=32)),
                ("pinned", models.CharField(blank=True, db_default="", max_length=10)),
                ("era", models.CharField(blank=True, db_default="", max_length=9)),
                ("info", models.JSONField(db_default={}, default=dict)),
                ("capabilities", models.JSONField(db_default={}, default=dict)),
                ("incomplete", models.TextField(blank=True, db_default="")),
                ("catalogue_at", models.DateTimeField(null=True)),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(db_default=0)),
                ("open_since", models.DateTimeField(null=True)),
                ("retry_at", models.DateTimeField(null=True)),
                ("probe_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("removed_at", models.DateTimeField(null=True)),
                ("tenant", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.tenant")),
            ],
            options={
                "db_table": "server",
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(max_length=16)),
                (
                    "groups",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), blank=True, db_default=[], default=list, size=None
                    ),
                ),
                ("password_due", models.BooleanField(db_default=False, default=False)),
                (
                    "granted_at",
                    models.DateTimeField(db_default=models.Func(function="clock_timestamp")),
                ),
                ("governed_at", models.DateTimeField(null=True)),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                ("tenant", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.tenant")),
            ],
            options={
                "db_table": "membership",
            },
        ),
        migrations.CreateModel(
            name="Absence",
            fields=[
                (
                    "membership",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="store.membership",
                    ),
                ),
                ("until", models.DateTimeField()),
                ("named_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                (
                    "deputy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="store.membership",
                    ),
                ),
            ],
            options={
                "db_table": "absence",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("deputy__isnull", True),
                            models.Q(("deputy", models.F("membership")), _negated=True),
                            _connector="OR",
                        ),
                        name="absence_deputy_is_another",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="authcontext",
            name="tenant",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.tenant"),
        ),
        migrations.CreateModel(
            name="Timing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16)),
                ("counts", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("seconds", models.FloatField()),
                ("server", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.server")),
            ],
            options={
                "db_table": "timing",
            },
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
            },
        ),
        migrations.CreateModel(
            name="Tool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=128)),
                ("exposed_name", models.CharField(max_length=160)),
                ("position", models.IntegerField(db_default=0)),
                ("definition", taskhub.store.fields.JsonText()),
                ("digest", models.CharField(max_length=64)),
                ("rejected", models.TextField(blank=True, db_default="")),
                ("hint_mode", models.CharField(max_length=8, null=True)),
                ("read_only", models.BooleanField(db_default=False)),
                ("idempotent", models.BooleanField(db_default=False)),
                ("first_seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("gone_at", models.DateTimeField(null=True)),
                ("confirmed_digest", models.CharField(blank=True, db_default="", max_length=64)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("confirmed_by", models.CharField(blank=True, db_default="", max_length=255)),
                ("enabled", models.BooleanField(db_default=True)),
                ("policy_mode", models.CharField(max_length=8, null=True)),
                ("policy_at_least_once", models.BooleanField(null=True)),
                ("question_audience", models.CharField(max_length=8, null=True)),
                ("people_after_program", models.BooleanField(db_default=False)),
                ("companion", models.JSONField(db_default={}, default=dict)),
                ("retry_on", models.JSONField(db_default=[], default=list)),
                ("retry_seconds", models.IntegerField(db_default=1)),
                ("max_attempts", models.IntegerField(db_default=3)),
                ("run_seconds", models.IntegerField(db_default=900)),
                ("join_seconds", models.IntegerField(db_default=300)),
                (
                    "server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tools", to="store.server"
                    ),
                ),
            ],
            options={
                "db_table": "tool",
            },
        ),
        migrations.AddField(
            model_name="task",
            name="tool",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.tool"),
        ),
        migrations.CreateModel(
            name="AccessToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.BinaryField(max_length=32)),
                ("prefix", models.CharField(max_length=16)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), default=list, size=None
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("last_address", models.CharField(db_default="", max_length=64)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "context",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to="store.authcontext"
                    ),
                ),
            ],
            options={
                "db_table": "access_token",
                "constraints": [models.UniqueConstraint(fields=("digest",), name="access_token_digest_unique")],
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
                (
                    "targets",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=300), default=list, size=None
                    ),
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
                "constraints": [
                    models.UniqueConstraint(fields=("application", "user"), name="consent_one_answer"),
                    models.CheckConstraint(condition=models.Q(("scopes__len__gt", 0)), name="consent_to_something"),
                ],
            },
        ),
        migrations.CreateModel(
            name="OutcomeCheck",
            fields=[
                (
                    "question",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="check_of_outcome",
                        serialize=False,
                        to="store.question",
                    ),
                ),
                ("tool_name", models.CharField(db_default="", max_length=160)),
                ("arguments", models.TextField(null=True)),
                ("tries", models.IntegerField(db_default=0)),
                ("next_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("result", models.TextField(null=True)),
                ("problem", models.TextField(db_default="")),
            ],
            options={
                "db_table": "outcome_check",
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)), fields=["next_at"], name="outcome_check_due"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("result__isnull", True), ("ended_at__isnull", False), _connector="OR"),
                        name="outcome_check_result_ends_it",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Preview",
            fields=[
                (
                    "question",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="preview",
                        serialize=False,
                        to="store.question",
                    ),
                ),
                ("tool_name", models.CharField(db_default="", max_length=160)),
                ("arguments", models.TextField(null=True)),
                ("tries", models.IntegerField(db_default=0)),
                ("next_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("text", models.TextField(null=True)),
                ("left_out", models.IntegerField(db_default=0)),
                ("is_error", models.BooleanField(db_default=False)),
                ("problem", models.TextField(db_default="")),
                ("digest", models.BinaryField(max_length=32, null=True)),
            ],
            options={
                "db_table": "preview",
                "indexes": [
                    models.Index(condition=models.Q(("ended_at__isnull", True)), fields=["next_at"], name="preview_due")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("digest__isnull", True), ("ended_at__isnull", True), ("text__isnull", True)),
                            models.Q(("digest__isnull", False), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="preview_digest_iff_ended",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("actor", models.CharField(max_length=255)),
                ("verdict", models.CharField(max_length=16)),
                ("reason", models.CharField(db_default="", max_length=1024)),
                ("arguments_digest", models.BinaryField(max_length=32)),
                ("call_digest", models.BinaryField(max_length=32, null=True)),
                ("preview_digest", models.BinaryField(max_length=32, null=True)),
                ("second_factor", models.CharField(db_default="", max_length=16)),
                ("door", models.CharField(max_length=8)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("undo_until", models.DateTimeField(null=True)),
                (
                    "context",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to="store.authcontext"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "for_user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "question",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="decisions", to="store.question"
                    ),
                ),
            ],
            options={
                "db_table": "decision",
                "indexes": [
                    models.Index(
                        condition=models.Q(("undo_until__isnull", False), ("verdict", "reject")),
                        fields=["undo_until"],
                        name="decision_rejected",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("question", "user"),
                        name="decision_one_per_person",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("for_user__isnull", False)),
                        fields=("question", "for_user"),
                        name="decision_one_for_person",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("for_user__isnull", True),
                            models.Q(("user__isnull", False), models.Q(("for_user", models.F("user")), _negated=True)),
                            _connector="OR",
                        ),
                        name="decision_for_another",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "verdict__in",
                                [
                                    "approve",
                                    "reject",
                                    "allow",
                                    "deny",
                                    "accept",
                                    "decline",
                                    "cancel",
                                    "answer",
                                    "ran",
                                    "unrun",
                                ],
                            )
                        ),
                        name="decision_verdict_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Relay",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("method", models.CharField(max_length=32)),
                ("params", taskhub.store.fields.JsonText()),
                ("capabilities", taskhub.store.fields.JsonText()),
                ("state", models.CharField(db_default="waiting", max_length=8)),
                ("outcome", taskhub.store.fields.JsonText(null=True)),
                ("worker", models.CharField(blank=True, db_default="", max_length=128)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("deadline", models.DateTimeField()),
                ("context", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.authcontext")),
                (
                    "server",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.server"),
                ),
            ],
            options={
                "db_table": "relay",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")), fields=["server", "created_at"], name="relay_waiting"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("method__in", ["resources/read", "prompts/get", "completion/complete"])),
                        name="relay_method_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "running", "done"])), name="relay_state_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("outcome__isnull", False), ("state", "done")),
                            models.Q(models.Q(("state", "done"), _negated=True), ("outcome__isnull", True)),
                            _connector="OR",
                        ),
                        name="relay_outcome_iff_done",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "waiting"), ("worker", "")),
                            models.Q(
                                models.Q(("state", "waiting"), _negated=True), models.Q(("worker", ""), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="relay_worker_iff_claimed",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Offer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=8)),
                ("key", models.TextField()),
                ("exposed_name", models.TextField()),
                ("position", models.IntegerField(db_default=0)),
                ("definition", taskhub.store.fields.JsonText()),
                ("digest", models.CharField(max_length=64)),
                ("rejected", models.TextField(blank=True, db_default="")),
                ("first_seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("gone_at", models.DateTimeField(null=True)),
                (
                    "server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="offers", to="store.server"
                    ),
                ),
            ],
            options={
                "db_table": "offer",
                "constraints": [
                    models.UniqueConstraint(fields=("server", "kind", "key"), name="offer_key_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["prompt", "resource", "template"])), name="offer_kind_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="UpstreamSession",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("worker", models.CharField(max_length=128)),
                ("pid", models.IntegerField(null=True)),
                ("memory", models.BigIntegerField(null=True)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("why", models.CharField(blank=True, db_default="", max_length=200)),
                (
                    "context",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.authcontext"),
                ),
                (
                    "server",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.server"),
                ),
            ],
            options={
                "db_table": "upstream_session",
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=["worker"],
                        name="upstream_session_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("server", "context"), name="upstream_session_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("why", "")),
                            models.Q(("ended_at__isnull", False), models.Q(("why", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="upstream_session_ended_for_a_reason",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServerLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("worker", models.CharField(max_length=128)),
                ("said_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("text", models.TextField()),
                (
                    "server",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.server"),
                ),
            ],
            options={
                "db_table": "server_line",
                "indexes": [models.Index(fields=["server", "id"], name="server_line_of")],
            },
        ),
        migrations.CreateModel(
            name="ToolVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("definition", taskhub.store.fields.JsonText()),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField(null=True)),
                (
                    "tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="versions", to="store.tool"
                    ),
                ),
            ],
            options={
                "db_table": "tool_version",
                "constraints": [
                    models.UniqueConstraint(fields=("tool", "digest"), name="tool_version_digest_unique"),
                    models.UniqueConstraint(fields=("tool", "number"), name="tool_version_number_unique"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RuleVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("rules", taskhub.store.fields.JsonText()),
                ("digest", models.CharField(max_length=64)),
                ("made_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("made_by", models.CharField(max_length=255)),
                ("reason", models.CharField(blank=True, db_default="", max_length=500)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "rule_version",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "number"), name="rule_version_number_unique"),
                    models.CheckConstraint(condition=models.Q(("number__gte", 1)), name="rule_version_number_positive"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Bypass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reason", models.CharField(max_length=200)),
                ("made_by", models.CharField(max_length=255)),
                ("began_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "server",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.server",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "bypass",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("tenant",),
                        name="bypass_one_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ends_at__gt", models.F("began_at")),
                            (
                                "ends_at__lte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("began_at"), "+", models.Value(datetime.timedelta(days=1))
                                ),
                            ),
                        ),
                        name="bypass_is_short",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True),
                            models.Q(("ended_at__gte", models.F("began_at")), ("ended_at__lte", models.F("ends_at"))),
                            _connector="OR",
                        ),
                        name="bypass_ends_in_its_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("reason", ""), _negated=True), name="bypass_has_a_reason"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DismissedProposal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=100)),
                ("approved", models.IntegerField()),
                ("dismissed_by", models.CharField(max_length=255)),
                ("dismissed_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                (
                    "context",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.authcontext",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.tenant",
                    ),
                ),
                (
                    "tool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.tool",
                    ),
                ),
            ],
            options={
                "db_table": "dismissed_proposal",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "context", "tool", "rule"), name="dismissed_proposal_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Permit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=64)),
                ("arguments_digest", models.BinaryField(max_length=32)),
                ("tool_digest", models.BinaryField(max_length=32)),
                ("rules_version", models.IntegerField()),
                ("asked", models.BooleanField()),
                ("issued_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("expires_at", models.DateTimeField()),
                ("redeemed_at", models.DateTimeField(null=True)),
                (
                    "context",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.authcontext",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.tenant",
                    ),
                ),
                (
                    "tool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="store.tool",
                    ),
                ),
            ],
            options={
                "db_table": "permit",
                "indexes": [models.Index(fields=["expires_at"], name="permit_expiry")],
                "constraints": [
                    models.UniqueConstraint(fields=("public_id",), name="permit_public_id_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("issued_at"))), name="permit_expires_after_issue"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("redeemed_at__isnull", True),
                            models.Q(
                                ("redeemed_at__gte", models.F("issued_at")), ("redeemed_at__lt", models.F("expires_at"))
                            ),
                            _connector="OR",
                        ),
                        name="permit_redeemed_in_its_time",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ConnectionTest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("requested_at", models.DateTimeField()),
                ("taken_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("worker", models.CharField(blank=True, db_default="", max_length=128)),
                ("steps", models.JSONField(db_default=[], default=list)),
                (
                    "server",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.server"
                    ),
                ),
            ],
            options={
                "db_table": "connection_test",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("ended_at__isnull", True), ("steps", []), ("taken_at__isnull", True), ("worker", "")
                            ),
                            models.Q(models.Q(("worker", ""), _negated=True), ("taken_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="connection_test_worker_iff_taken",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServerOAuth",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("way", models.CharField(max_length=8)),
                ("issuer", models.TextField(blank=True, db_default="")),
                ("client_id", models.TextField(blank=True, db_default="")),
                ("client_secret", models.BinaryField(null=True)),
                ("scopes", models.TextField(blank=True, db_default="")),
                ("lacking", models.TextField(blank=True, db_default="")),
                ("found", models.JSONField(db_default={}, default=dict)),
                ("registered", models.JSONField(db_default={}, default=dict)),
                (
                    "server",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="oauth", to="store.server"
                    ),
                ),
            ],
            options={
                "db_table": "server_oauth",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("way__in", ["client", "shared", "each"])), name="server_oauth_way_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("way", "client"), _negated=True),
                            models.Q(models.Q(("client_id", ""), _negated=True), ("client_secret__isnull", False)),
                            _connector="OR",
                        ),
                        name="server_oauth_client_has_credentials",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("client_secret__isnull", True),
                            models.Q(("client_id", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="server_oauth_secret_of_a_client",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServerGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state", models.CharField(db_default="good", max_length=8)),
                ("problem", models.TextField(blank=True, db_default="")),
                ("issuer", models.TextField(blank=True, db_default="")),
                ("client_id", models.TextField(blank=True, db_default="")),
                ("registered", models.JSONField(db_default={}, default=dict)),
                ("scopes", models.TextField(blank=True, db_default="")),
                ("access", models.BinaryField(null=True)),
                ("refresh", models.BinaryField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("version", models.IntegerField(db_default=0)),
                ("refreshing_until", models.DateTimeField(null=True)),
                ("refresh_after", models.DateTimeField(null=True)),
                ("granted_by", models.CharField(db_default="", max_length=255)),
                ("granted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("refreshed_at", models.DateTimeField(null=True)),
                ("told_at", models.DateTimeField(null=True)),
                (
                    "server",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="store.server",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "context",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.authcontext"),
                ),
            ],
            options={
                "db_table": "server_grant",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("server", "user", "context"), name="server_grant_one_for_each", nulls_distinct=False
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("user__isnull", True), ("context__isnull", True), _connector="OR"),
                        name="server_grant_for_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["good", "lapsed"])), name="server_grant_state_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("problem", ""), ("state", "good")),
                            models.Q(
                                ("access__isnull", True),
                                ("refresh__isnull", True),
                                ("refreshing_until__isnull", True),
                                ("state", "lapsed"),
                                models.Q(("problem", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="server_grant_lapsed_keeps_no_token",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GrantRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state_digest", models.CharField(max_length=64, unique=True)),
                ("session_key", models.CharField(max_length=64)),
                ("verifier", models.BinaryField()),
                ("issuer", models.TextField()),
                ("client_id", models.TextField()),
                ("registered", models.JSONField(db_default={}, default=dict)),
                ("redirect_uri", models.TextField()),
                ("scopes", models.TextField(blank=True, db_default="")),
                ("back", models.CharField(blank=True, db_default="", max_length=200)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "server",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.server"),
                ),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "context",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.authcontext"
                    ),
                ),
            ],
            options={
                "db_table": "grant_request",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("user__isnull", True), ("context__isnull", True), _connector="OR"),
                        name="grant_request_for_one",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Interest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(max_length=64)),
                ("uri", models.TextField()),
                ("followed_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "server",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.server"),
                ),
            ],
            options={
                "db_table": "interest",
                "indexes": [models.Index(fields=["server"], name="interest_server")],
                "constraints": [models.UniqueConstraint(fields=("holder", "server", "uri"), name="interest_unique")],
            },
        ),
        migrations.CreateModel(
            name="CodeUse",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("step", models.BigIntegerField(db_default=0)),
                ("tries", models.IntegerField(db_default=0)),
                ("tries_since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "code_use",
            },
        ),
        migrations.CreateModel(
            name="SignIn",
            fields=[
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                ("session_key", models.CharField(db_column="digest", max_length=64, primary_key=True, serialize=False)),
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
        migrations.AddIndex(
            model_name="stream",
            index=models.Index(fields=["seen_at"], name="stream_seen"),
        ),
        migrations.AddConstraint(
            model_name="stream",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["call", "wait", "result", "listen"])), name="stream_kind_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="stream",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "listen"), ("task__isnull", True)),
                    models.Q(models.Q(("kind", "listen"), _negated=True), ("task__isnull", False)),
                    _connector="OR",
                ),
                name="stream_task_unless_listen",
            ),
        ),
        migrations.AddIndex(
            model_name="outbound",
            index=models.Index(condition=models.Q(("state", "open")), fields=["task"], name="outbound_open"),
        ),
        migrations.AddIndex(
            model_name="outbound",
            index=models.Index(condition=models.Q(("state", "accepted")), fields=["stream"], name="outbound_accepted"),
        ),
        migrations.AddConstraint(
            model_name="outbound",
            constraint=models.UniqueConstraint(fields=("question", "page", "step"), name="outbound_step_once"),
        ),
        migrations.AddConstraint(
            model_name="outbound",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["open", "answered", "withdrawn"]),
                    models.Q(("page", True), ("state__in", ["offered", "accepted"])),
                    _connector="OR",
                ),
                name="outbound_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbound",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed_at__isnull", True), ("state__in", ["open", "offered"])),
                    models.Q(models.Q(("state__in", ["open", "offered"]), _negated=True), ("closed_at__isnull", False)),
                    _connector="OR",
                ),
                name="outbound_closed_iff_not_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("task", "number"), name="attempt_number_unique"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", True)), fields=["context", "seen_at"], name="session_live"
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["seen_at"], name="session_seen"),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.UniqueConstraint(fields=("public_id",), name="session_public_id_unique"),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.UniqueConstraint(
                condition=models.Q(("removed_at__isnull", True)), fields=("tenant", "name"), name="server_name_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(("transport__in", ["python", "stdio", "http"])), name="server_transport_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(("pinned__regex", r"^([0-9]{4}-[0-9]{2}-[0-9]{2}|caller)?$")),
                name="server_pinned_version",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(("era__in", ["", "stateless", "sessions", "sse"])), name="server_era_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["unknown", "ready", "unreachable", "unauthorized", "disabled"])),
                name="server_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("calls_at_once__isnull", True),
                    ("calls_at_once__range", (1, 1000)),
                    _connector="OR",
                ),
                name="server_calls_at_once_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("failures__gte", 0),
                        ("open_since__isnull", True),
                        ("probe_until__isnull", True),
                        ("retry_at__isnull", True),
                    ),
                    models.Q(("failures__gt", 0), ("open_since__isnull", False), ("retry_at__isnull", False)),
                    _connector="OR",
                ),
                name="server_breaker_whole",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("headers", {}), models.Q(("transport__in", ["python", "stdio"]), _negated=True), _connector="OR"
                ),
                name="server_headers_for_addresses",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("directory", ""), ("environment", {})),
                    ("transport", "stdio"),
                    ("own_process", True),
                    _connector="OR",
                ),
                name="server_environment_for_commands",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(("own_process", False), ("transport", "python"), _connector="OR"),
                name="server_own_process_for_python",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("connect_seconds__isnull", True), ("connect_seconds__range", (1, 120)), _connector="OR"
                ),
                name="server_connect_seconds_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(("disabled_reason", ""), ("enabled", False), _connector="OR"),
                name="server_reason_while_disabled",
            ),
        ),
        migrations.AddConstraint(
            model_name="server",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("removed_at__isnull", True),
                    models.Q(
                        ("credentials__isnull", True),
                        ("enabled", False),
                        ("environment", {}),
                        ("headers", {}),
                        ("open_since__isnull", True),
                        ("sealed_target__isnull", True),
                        ("state", "disabled"),
                    ),
                    _connector="OR",
                ),
                name="server_removed_keeps_no_secret",
            ),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", True)), fields=["tenant", "opened_at"], name="question_open"
            ),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(
                condition=models.Q(("alike__isnull", False), ("closed_at__isnull", True)),
                fields=["alike"],
                name="question_alike",
            ),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(condition=models.Q(("about__isnull", False)), fields=["about"], name="question_about"),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", False)),
                fields=["tenant", "-closed_at", "-id"],
                name="question_closed",
            ),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", False), ("kind", "approval")),
                fields=["tenant", "-closed_at", "-id"],
                name="question_approval_closed",
            ),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(
                condition=models.Q(
                    ("closed_at__isnull", True), ("remind_at__isnull", False), ("reminded_at__isnull", True)
                ),
                fields=["remind_at"],
                name="question_to_remind",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.UniqueConstraint(fields=("task", "key"), name="question_key_once_per_task"),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["elicitation", "sampling", "roots", "approval", "outcome", "authorization"])
                ),
                name="question_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(("audience__in", ["client", "operator", "either"])), name="question_audience_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["open", "answered", "superseded", "expired"])),
                name="question_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("response__isnull", False), ("state", "answered")),
                    models.Q(models.Q(("state", "answered"), _negated=True), ("response__isnull", True)),
                    _connector="OR",
                ),
                name="question_response_iff_answered",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(("error__isnull", True), ("state", "superseded"), _connector="OR"),
                name="question_error_is_no_answer",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed_at__isnull", True), ("state", "open")),
                    models.Q(models.Q(("state", "open"), _negated=True), ("closed_at__isnull", False)),
                    _connector="OR",
                ),
                name="question_closed_iff_not_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(("reminded_at__isnull", True), ("remind_at__isnull", False), _connector="OR"),
                name="question_reminded_when_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(("handed_to__isnull", True), ("handed_group", ""), _connector="OR"),
                name="question_handed_to_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("about__isnull", True), ("asked_by__isnull", True), ("person__isnull", True)),
                    models.Q(
                        ("about__isnull", False),
                        ("due_at__isnull", True),
                        ("kind", "elicitation"),
                        ("live", False),
                        ("upstream_key", ""),
                        ("audience__in", ["client", "operator"]),
                    ),
                    _connector="OR",
                ),
                name="question_about_an_approval",
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("tenant", "user"), name="membership_one_role"),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["viewer", "operator", "approver", "auditor", "admin"])),
                name="membership_role_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="authcontext",
            constraint=models.UniqueConstraint(
                fields=("tenant", "issuer", "subject", "client_id"), name="auth_context_one_principal"
            ),
        ),
        migrations.AddConstraint(
            model_name="application",
            constraint=models.UniqueConstraint(fields=("tenant", "registration"), name="application_once_per_tenant"),
        ),
        migrations.AddConstraint(
            model_name="timing",
            constraint=models.UniqueConstraint(fields=("server", "kind"), name="timing_once"),
        ),
        migrations.AddConstraint(
            model_name="timing",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            taskhub.core.timings.TimingKind["WAITED"],
                            taskhub.core.timings.TimingKind["FINISHED"],
                            taskhub.core.timings.TimingKind["ERROR"],
                            taskhub.core.timings.TimingKind["ASKED"],
                            taskhub.core.timings.TimingKind["FAULTED"],
                            taskhub.core.timings.TimingKind["TIMED_OUT"],
                            taskhub.core.timings.TimingKind["CANCELLED"],
                            taskhub.core.timings.TimingKind["GIVEN_BACK"],
                            taskhub.core.timings.TimingKind["LOST"],
                        ],
                    )
                ),
                name="timing_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="timing",
            constraint=models.CheckConstraint(condition=models.Q(("counts__len", 17)), name="timing_counts_whole"),
        ),
        migrations.AddConstraint(
            model_name="tokenfamily",
            constraint=models.CheckConstraint(
                condition=models.Q(("code_checksum__regex", "^[0-9a-f]{64}$")), name="token_family_hashed"
            ),
        ),
        migrations.AddConstraint(
            model_name="tokenfamily",
            constraint=models.CheckConstraint(
                condition=models.Q(("scopes__len__gt", 0)), name="token_family_of_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.UniqueConstraint(fields=("server", "name"), name="tool_name_unique"),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("policy_mode__isnull", True),
                    ("policy_mode__in", ["auto", "always", "never", "required"]),
                    _connector="OR",
                ),
                name="tool_mode_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("hint_mode__isnull", True),
                    ("hint_mode__in", ["auto", "always", "never", "required"]),
                    _connector="OR",
                ),
                name="tool_hint_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_attempts__range", (1, 20))), name="tool_max_attempts_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(("retry_seconds__range", (1, 300))), name="tool_retry_seconds_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(("run_seconds__range", (1, 86400))), name="tool_run_seconds_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(("join_seconds__range", (0, 86400))), name="tool_join_seconds_range"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["runnable_at", "id"], name="task_runnable"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state", "queued")),
                fields=["context", "tool", "runnable_at", "id"],
                name="task_runnable_by_tool",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(condition=models.Q(("state", "queued")), fields=["expires_at"], name="task_unrun"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(models.Q(("worker", ""), _negated=True), ("ended_at__isnull", True)),
                fields=["id"],
                name="task_held",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", True)),
                fields=["context", "arguments_digest"],
                name="task_live_by_context",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("left_at__isnull", False)),
                fields=["context", "arguments_digest"],
                name="task_left",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False), ("waiter__isnull", False)),
                fields=["context", "tool", "arguments_digest", "ended_at"],
                name="task_waited_for",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("left_at__isnull", False), ("state__in", ["finished", "faulted"])),
                fields=["tenant", "-id"],
                name="task_newest_not_fetched",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["tenant", "-id"], name="task_newest"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["tenant", "state", "-id"], name="task_newest_by_state"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["context", "-id"], name="task_newest_by_context"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("ended_as", ""), ("is_error", True), ("state", "finished")),
                fields=["tenant", "-id"],
                name="task_newest_with_error",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("ended_as", ""), ("state", "faulted")),
                fields=["tenant", "-id"],
                name="task_newest_faulted",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("ended_as", ""), _negated=True),
                fields=["tenant", "ended_as", "-id"],
                name="task_newest_ended_as",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("is_error", True), ("state__in", ["faulted", "cancelled"]), _connector="OR"),
                fields=["context", "state", "-id"],
                name="task_troubled_by_context",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("handle", True)),
                fields=["context", "revision", "expires_at"],
                name="task_handed_out",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="task_ended"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("session__isnull", False)),
                fields=["session", "ended_at"],
                name="task_ended_by_session",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("session__isnull", False), ("state", "input_required")),
                fields=["session"],
                name="task_asking_by_session",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(fields=("public_id",), name="task_public_id_unique"),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["queued", "working", "input_required", "finished", "faulted", "cancelled"])
                ),
                name="task_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", False), ("state__in", ["finished", "faulted", "cancelled"])),
                    models.Q(
                        models.Q(("state__in", ["finished", "faulted", "cancelled"]), _negated=True),
                        ("ended_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="task_ended_iff_terminal",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("result__isnull", False), ("state", "finished")),
                    models.Q(models.Q(("state", "finished"), _negated=True), ("result__isnull", True)),
                    _connector="OR",
                ),
                name="task_result_iff_finished",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("error__isnull", False), ("state", "faulted")),
                    models.Q(models.Q(("state", "faulted"), _negated=True), ("error__isnull", True)),
                    _connector="OR",
                ),
                name="task_error_iff_faulted",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("ended_as", ""),
                    models.Q(("ended_as__in", ["rejected", "expired"]), ("is_error", True), ("state", "finished")),
                    models.Q(("ended_as__in", ["expired", "denied"]), ("state", "faulted")),
                    _connector="OR",
                ),
                name="task_ended_as_fits",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lease_until__isnull", True), ("state__in", ["working", "input_required"]), _connector="OR"
                ),
                name="task_lease_only_while_held",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("ttl_ms__isnull", True), ("ttl_ms__range", (1000, 2592000000)), _connector="OR"),
                name="task_ttl_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("poll_interval_ms__range", (100, 60000))), name="task_poll_interval_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("created_at__lte", models.F("updated_at"))), name="task_times_in_order"
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("revision", "approvals"), ("state__in", ["queued", "working"]), _negated=True),
                name="task_decided_only_never_runs",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("keep_ms__isnull", True), ("keep_ms__range", (1000, 2592000000)), _connector="OR"),
                name="task_keep_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                condition=models.Q(("idempotency_key__isnull", False)),
                fields=("context", "idempotency_key"),
                name="task_idempotency_key_unique",
            ),
        ),
        migrations.CreateModel(
            "ResultRead",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "task_id",
                        "context_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        "store.task", django.db.models.deletion.CASCADE, db_index=False, db_constraint=False
                    ),
                ),
                (
                    "context",
                    models.ForeignKey(
                        "store.authcontext", django.db.models.deletion.CASCADE, db_index=False, db_constraint=False
                    ),
                ),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("count", models.BigIntegerField()),
            ],
            options={"db_table": "result_read"},
        ),
        migrations.AddConstraint(
            "resultread",
            models.CheckConstraint(
                condition=models.Q(count__gte=1, first_at__lte=models.F("last_at")), name="result_read_makes_sense"
            ),
        ),
        migrations.CreateModel(
            name="Deferred",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deferred",
                        to="store.task",
                    ),
                ),
                ("epoch", models.IntegerField()),
                (
                    "server",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.server"),
                ),
                ("upstream_id", models.CharField(max_length=256)),
                ("revision", models.CharField(max_length=32)),
                ("home", models.CharField(db_default="", max_length=128)),
                ("session", models.BinaryField(null=True)),
                ("status", models.CharField(db_default="working", max_length=16)),
                ("poll_ms", models.IntegerField(db_default=1000)),
                ("poll_at", models.DateTimeField(null=True)),
                ("turn", models.IntegerField(db_default=0)),
                ("ran_seconds", models.FloatField(db_default=0.0)),
                ("running_since", models.DateTimeField(null=True)),
                ("cancel_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "deferred",
                "indexes": [
                    models.Index(
                        condition=models.Q(("poll_at__isnull", False)),
                        fields=["server", "poll_at"],
                        name="deferred_due",
                    ),
                    models.Index(
                        condition=models.Q(("cancel_at__isnull", False)),
                        fields=["cancel_at"],
                        name="deferred_to_cancel",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "epoch"), name="deferred_epoch_unique"),
                    models.UniqueConstraint(
                        condition=models.Q(("poll_at__isnull", False)), fields=("task",), name="deferred_one_polled"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("poll_at__isnull", False), ("status__in", ["working", "input_required"])),
                            models.Q(
                                ("poll_at__isnull", True),
                                ("status__in", ["completed", "failed", "cancelled", "unknown"]),
                            ),
                            _connector="OR",
                        ),
                        name="deferred_polled_until_over",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("poll_ms__range", (100, 60000))), name="deferred_poll_range"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("upstream_id", ""), _negated=True), name="deferred_has_an_id"
                    ),
                ],
            },
        ),
        # A table in parts, which Django cannot say: 0001_initial.sql makes it.
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64)),
                ("sealed_url", models.BinaryField()),
                ("origin", models.CharField(max_length=300)),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), size=None),
                ),
                ("sealed_secret", models.BinaryField()),
                ("sealed_secret_before", models.BinaryField(null=True)),
                ("before_until", models.DateTimeField(null=True)),
                ("enabled", models.BooleanField(db_default=True)),
                ("disabled_why", models.CharField(db_default="", max_length=200)),
                ("failing_since", models.DateTimeField(null=True)),
                ("problem", models.CharField(db_default="", max_length=300)),
                ("made_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                (
                    "context",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.authcontext",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.tenant"
                    ),
                ),
            ],
            options={
                "db_table": "webhook",
            },
        ),
        migrations.CreateModel(
            name="NewsRead",
            fields=[
                (
                    "membership",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="store.membership",
                    ),
                ),
                ("below", models.BigIntegerField()),
                (
                    "still_open",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), db_default=[], size=None
                    ),
                ),
            ],
            options={
                "db_table": "news_read",
            },
        ),
        migrations.CreateModel(
            name="NoticeChoices",
            fields=[
                (
                    "membership",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="store.membership",
                    ),
                ),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), db_default=[], size=None
                    ),
                ),
                ("pace", models.CharField(db_default="soon", max_length=8)),
                ("daily_at", models.TimeField(null=True)),
                ("quiet_from", models.TimeField(null=True)),
                ("quiet_until", models.TimeField(null=True)),
                ("zone", models.CharField(db_default="UTC", max_length=64)),
            ],
            options={
                "db_table": "notice_choices",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("daily_at__isnull", True), ("pace", "soon")),
                            models.Q(("daily_at__isnull", False), ("pace", "daily")),
                            _connector="OR",
                        ),
                        name="notice_choices_pace_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("quiet_from__isnull", True), ("quiet_until__isnull", True)),
                            models.Q(
                                ("quiet_from__isnull", False),
                                ("quiet_until__isnull", False),
                                models.Q(("quiet_from", models.F("quiet_until")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="notice_choices_quiet_ends",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NoticeAddress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("channel", models.CharField(max_length=8)),
                ("address", models.CharField(db_default="", max_length=254)),
                ("pending", models.CharField(db_default="", max_length=254)),
                ("name", models.CharField(db_default="", max_length=100)),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "choices",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.noticechoices",
                    ),
                ),
            ],
            options={
                "db_table": "notice_address",
                "constraints": [
                    models.UniqueConstraint(fields=("choices", "channel"), name="notice_address_of_a_channel"),
                    models.CheckConstraint(
                        condition=models.Q(("channel__in", ["apprise", "mail", "push", "slack"])),
                        name="notice_address_channel_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name", ""), models.Q(("address", ""), _negated=True), _connector="OR"),
                        name="notice_address_named_if_there",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PushBrowser",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.BinaryField(max_length=32)),
                ("sealed", models.BinaryField()),
                ("session", models.CharField(max_length=64)),
                ("label", models.CharField(max_length=64)),
                ("host", models.CharField(max_length=255)),
                ("made_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("used_at", models.DateTimeField(null=True)),
                ("last_message", models.CharField(db_default="", max_length=40)),
                (
                    "choices",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.noticechoices"
                    ),
                ),
            ],
            options={
                "db_table": "push_browser",
                "indexes": [models.Index(fields=["session"], name="push_browser_by_session")],
                "constraints": [models.UniqueConstraint(fields=("digest",), name="push_browser_digest_unique")],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40)),
                ("event_id", models.BigIntegerField(null=True)),
                ("kind", models.CharField(max_length=32)),
                ("channel", models.CharField(max_length=8)),
                ("body", models.TextField()),
                ("message", models.CharField(db_default="", max_length=40)),
                ("state", models.CharField(db_default="due", max_length=8)),
                ("due_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("planned_at", models.DateTimeField(null=True)),
                ("early_at", models.DateTimeField(null=True)),
                ("attempts", models.IntegerField(db_default=0)),
                ("failures", models.IntegerField(db_default=0)),
                ("early_failures", models.IntegerField(db_default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                ("problem", models.CharField(db_default="", max_length=300)),
                ("queued_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.tenant"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "webhook",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.webhook",
                    ),
                ),
            ],
            options={
                "db_table": "notice",
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("began_at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                ("ended_at", models.DateTimeField(null=True)),
                ("status", models.IntegerField(null=True)),
                ("answer", models.CharField(db_default="", max_length=500)),
                ("problem", models.CharField(db_default="", max_length=300)),
                (
                    "notice",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.notice"
                    ),
                ),
            ],
            options={
                "db_table": "delivery",
                "constraints": [
                    models.UniqueConstraint(fields=("notice", "number"), name="delivery_number_unique"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True), ("ended_at__gte", models.F("began_at")), _connector="OR"
                        ),
                        name="delivery_ends_after_begin",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SlackMessage",
            fields=[
                (
                    "notice",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="store.notice",
                    ),
                ),
                ("public_id", models.CharField(max_length=40)),
                ("conversation", models.CharField(db_default="", max_length=32)),
                ("ts", models.CharField(db_default="", max_length=32)),
                ("more", models.IntegerField(db_default=0)),
                ("shown", models.CharField(db_default="", max_length=64)),
                ("changes", models.IntegerField(db_default=0)),
                ("look_at", models.DateTimeField(null=True)),
                ("tries", models.IntegerField(db_default=0)),
            ],
            options={
                "db_table": "slack_message",
                "indexes": [
                    models.Index(
                        condition=models.Q(("look_at__isnull", False)),
                        fields=["look_at"],
                        name="slack_message_changed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("public_id",), name="slack_message_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("conversation", ""), ("ts", "")),
                            models.Q(
                                models.Q(("conversation", ""), _negated=True), models.Q(("ts", ""), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="slack_message_has_its_place",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SlackCard",
            fields=[
                (
                    "notice",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="store.notice",
                    ),
                ),
                ("call_digest", models.CharField(max_length=64)),
                ("refused", models.CharField(db_default="", max_length=500)),
                (
                    "message",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.slackmessage",
                    ),
                ),
                (
                    "question",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.question",
                    ),
                ),
            ],
            options={
                "db_table": "slack_card",
                "indexes": [
                    models.Index(fields=["question"], name="slack_card_of_a_question"),
                    models.Index(fields=["message"], name="slack_card_of_a_message"),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="webhook_name_unique"),
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("before_until__isnull", True), ("sealed_secret_before__isnull", True)),
                    models.Q(("before_until__isnull", False), ("sealed_secret_before__isnull", False)),
                    _connector="OR",
                ),
                name="webhook_secret_before_ends",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.CheckConstraint(
                condition=models.Q(("kinds__len__gte", 1)), name="webhook_sends_something"
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("state", "due")), fields=["webhook", "due_at", "id"], name="notice_due_to_a_webhook"
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(condition=models.Q(("state", "due")), fields=["due_at"], name="notice_due"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("lease_until__isnull", False)), fields=["webhook"], name="notice_under_way"
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["webhook", "-id"], name="notice_newest_of_a_webhook"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("state", "due"), ("user__isnull", False)),
                fields=["user", "channel", "due_at", "id"],
                name="notice_due_to_a_person",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("user__isnull", False)),
                fields=["user", "channel", "-id"],
                name="notice_newest_of_a_person",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["queued_at"], name="notice_age"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("public_id",), name="notice_public_id_unique"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("event_id", "webhook"), name="notice_once_for_a_webhook"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("event_id", "user", "channel"), name="notice_once_for_a_person"),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("channel", "webhook"), ("user__isnull", True), ("webhook__isnull", False)),
                    models.Q(
                        ("channel__in", ["apprise", "mail", "push", "slack"]),
                        ("user__isnull", False),
                        ("webhook__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="notice_has_its_receiver",
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("state", "due")),
                    models.Q(
                        ("ended_at__isnull", False),
                        ("lease_until__isnull", True),
                        ("state__in", ["sent", "failed", "skipped"]),
                    ),
                    _connector="OR",
                ),
                name="notice_state_fits",
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("channel__in", ["apprise", "mail", "push", "slack"]),
                    models.Q(("message", ""), models.Q(("state", "skipped"), _negated=True)),
                    _connector="OR",
                ),
                name="notice_in_a_message",
            ),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Event",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("task_id", models.BigIntegerField(null=True)),
                        ("task_version", models.IntegerField(null=True)),
                        ("action", models.CharField(max_length=64)),
                        ("actor", models.CharField(max_length=255)),
                        ("door", models.CharField(max_length=8)),
                        ("address", models.CharField(db_default="", max_length=64)),
                        ("context_id", models.BigIntegerField(null=True)),
                        ("user_id", models.BigIntegerField(null=True)),
                        ("target", models.CharField(db_default="", max_length=255)),
                        ("reason", models.CharField(db_default="", max_length=1024)),
                        ("before", models.JSONField(null=True)),
                        ("after", models.JSONField(null=True)),
                        ("at", models.DateTimeField(db_default=models.Func(function="clock_timestamp"))),
                        (
                            "xid",
                            models.BigIntegerField(
                                db_default=models.Func(template="((pg_current_xact_id())::text)::bigint")
                            ),
                        ),
                        (
                            "tenant",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                to="store.tenant",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "event",
                    },
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(
                        condition=models.Q(("task_id__isnull", False)), fields=["task_id", "id"], name="event_by_task"
                    ),
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(fields=["tenant", "-id"], name="event_newest"),
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(fields=["tenant", "action", "-id"], name="event_newest_by_action"),
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(fields=["xid", "id"], name="event_by_transaction"),
                ),
            ],
        ),
        migrations.RunPython(add_foreign_keys, migrations.RunPython.noop),
        migrations.RunSQL(SQL.read_text(), migrations.RunSQL.noop),
    ]
