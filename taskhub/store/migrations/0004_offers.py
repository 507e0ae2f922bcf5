"""What servers offer besides tools, and the requests and interests that pass between processes."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import taskhub.store.fields

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0003_guards_and_lifecycle"),
    ]

    operations = [
        migrations.AddField(
            model_name="server",
            name="capabilities",
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="server",
            name="incomplete",
            field=models.TextField(blank=True, db_default=""),
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
        migrations.RunSQL((SQL / "0004_offers.sql").read_text(), migrations.RunSQL.noop),
    ]
