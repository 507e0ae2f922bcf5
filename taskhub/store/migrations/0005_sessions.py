"""Sessions of the 2025 wires, with their streams and requests, and the functions over them."""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import taskhub.store.fields

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0004_offers"),
    ]

    operations = [
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
            ],
            options={
                "db_table": "stream",
            },
        ),
        migrations.AddField(
            model_name="task",
            name="client_task_id",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="keep_ms",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="handle",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="task",
            name="progress_token",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="request_id",
            field=models.TextField(null=True),
        ),
        migrations.CreateModel(
            name="Outbound",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step", models.IntegerField(db_default=0)),
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
                ("task", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.task")),
            ],
            options={
                "db_table": "outbound",
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
        migrations.AddField(
            model_name="task",
            name="session",
            field=models.ForeignKey(
                db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to="store.session"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("session__isnull", False)), fields=["session", "updated_at"], name="task_by_session"
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
        migrations.AddField(
            model_name="stream",
            name="session",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.session"),
        ),
        migrations.AddField(
            model_name="stream",
            name="task",
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.task"),
        ),
        migrations.AddField(
            model_name="outbound",
            name="stream",
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to="store.stream"),
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
            model_name="stream",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["call", "result", "listen"])), name="stream_kind_known"
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
        migrations.AddConstraint(
            model_name="outbound",
            constraint=models.UniqueConstraint(fields=("question", "step"), name="outbound_step_once"),
        ),
        migrations.AddConstraint(
            model_name="outbound",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["open", "answered", "withdrawn"])), name="outbound_state_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="outbound",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed_at__isnull", True), ("state", "open")),
                    models.Q(models.Q(("state", "open"), _negated=True), ("closed_at__isnull", False)),
                    _connector="OR",
                ),
                name="outbound_closed_iff_not_open",
            ),
        ),
        migrations.AddIndex(
            model_name="outbound",
            index=models.Index(condition=models.Q(("state", "open")), fields=["task"], name="outbound_open"),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("keep_ms__isnull", True), ("keep_ms__range", (1000, 2592000000)), _connector="OR"),
                name="task_keep_range",
            ),
        ),
        migrations.AddIndex(
            model_name="stream",
            index=models.Index(fields=["seen_at"], name="stream_seen"),
        ),
        migrations.RunSQL((SQL / "0005_sessions.sql").read_text(), migrations.RunSQL.noop),
    ]
