# The second half of what makemigrations wrote: constraints and indexes of the tables of 0001.

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0001_initial")]

    operations = [
        migrations.AddConstraint(
            model_name="server",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="server_name_unique"),
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
                condition=models.Q(("state__in", ["unknown", "ready", "unreachable", "disabled"])),
                name="server_state_known",
            ),
        ),
        migrations.AddIndex(
            model_name="question",
            index=models.Index(
                condition=models.Q(("state", "open")), fields=["tenant", "opened_at"], name="question_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.UniqueConstraint(fields=("task", "key"), name="question_key_once_per_task"),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["elicitation", "sampling", "roots", "approval"])),
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
                condition=models.Q(
                    models.Q(("closed_at__isnull", True), ("state", "open")),
                    models.Q(models.Q(("state", "open"), _negated=True), ("closed_at__isnull", False)),
                    _connector="OR",
                ),
                name="question_closed_iff_not_open",
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
        migrations.AddConstraint(
            model_name="authcontext",
            constraint=models.UniqueConstraint(
                fields=("tenant", "issuer", "subject", "client_id"), name="auth_context_one_principal"
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
                    ("policy_mode__isnull", True), ("policy_mode__in", ["auto", "always", "never"]), _connector="OR"
                ),
                name="tool_mode_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="tool",
            constraint=models.CheckConstraint(
                condition=models.Q(("approval_quorum__gte", 1)), name="tool_quorum_positive"
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
                condition=models.Q(("run_seconds__range", (1, 86400))), name="tool_run_seconds_range"
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
                condition=models.Q(("lease_until__isnull", False)), fields=["lease_until"], name="task_leased"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", True)), fields=["context"], name="task_live_by_context"
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
            index=models.Index(condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="task_ended"),
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
            constraint=models.UniqueConstraint(
                condition=models.Q(("idempotency_key__isnull", False)),
                fields=("context", "idempotency_key"),
                name="task_idempotency_key_unique",
            ),
        ),
    ]
