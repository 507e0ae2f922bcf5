"""Tasks and the rows that belong to them. Only the SQL of `domain/tasks` and `domain/questions` writes them."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from taskhub.core.states import QuestionKind
from taskhub.core.versions import DECIDED_ONLY
from taskhub.store.fields import JsonText
from taskhub.store.models.people import AuthContext, Tenant
from taskhub.store.models.servers import Server, Tool
from taskhub.store.models.sessions import Session

STATES = ["queued", "working", "input_required", "finished", "faulted", "cancelled"]
TERMINAL = ["finished", "faulted", "cancelled"]
VERDICTS = ["approve", "reject", "allow", "deny", "accept", "decline", "cancel", "answer", "ran", "unrun"]


class Task(models.Model):
    """One tool call. The trigger `task_guard` refuses every illegal change."""

    public_id = models.CharField(max_length=64)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    context = models.ForeignKey(AuthContext, models.PROTECT, db_index=False)
    tool = models.ForeignKey(Tool, models.PROTECT, db_index=False)
    tool_name = models.CharField(max_length=160)
    revision = models.CharField(max_length=32)
    arguments = JsonText()
    arguments_digest = models.BinaryField(max_length=32)
    tool_digest = models.BinaryField(max_length=32, null=True)
    answers = models.JSONField(null=True)
    decided = models.JSONField(null=True)
    """The verdict of the rules on the call (`core.rules.Verdict`) when they were last evaluated; null if the tenant had
    no rules."""

    edited = JsonText(null=True)
    """The arguments that people approved in place of `arguments`, which stay as the client sent them
    (`domain.tasks.edits`)."""

    state = models.CharField(max_length=16, db_default="queued")
    message = models.CharField(max_length=1024, db_default="")
    progress = models.FloatField(null=True)
    total = models.FloatField(null=True)
    result = models.TextField(null=True)
    error = models.TextField(null=True)
    is_error = models.BooleanField(db_default=False)
    ended_as = models.CharField(max_length=16, db_default="")
    """How a task ended whose tool neither answered nor failed: `rejected` (a person's no), `expired` (nobody decided,
    answered or took it in time) or `denied` (by a rule, when a worker took it); else empty."""
    upstream_state = models.TextField(null=True)

    lease_epoch = models.IntegerField(db_default=0)
    lease_until = models.DateTimeField(null=True)
    worker = models.CharField(max_length=128, db_default="")
    """The worker that has the task's lease, or had it when the task ended. Empty while the task is queued, waits for
    answers without a lease, or runs as a task of its server. Which workers ran it is in `Attempt`."""
    crashes = models.IntegerField(db_default=0)
    max_attempts = models.IntegerField(db_default=3)
    at_least_once = models.BooleanField(db_default=False)
    runnable_at = models.DateTimeField(db_default=Now())
    run_seconds = models.IntegerField(db_default=900)
    cancel_requested_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    ttl_ms = models.BigIntegerField(null=True)
    expires_at = models.DateTimeField(null=True)
    poll_interval_ms = models.IntegerField(db_default=1000)
    last_polled_at = models.DateTimeField(null=True)

    idempotency_key = models.CharField(max_length=255, null=True)
    client_info = models.JSONField(db_default={})
    client_capabilities = models.JSONField(db_default={})
    trace = models.JSONField(db_default={})
    rerun_of = models.ForeignKey("self", models.SET_NULL, null=True, related_name="reruns", db_index=False)
    version = models.IntegerField(db_default=1)

    session = models.ForeignKey(Session, models.SET_NULL, null=True, db_index=False)
    request_id = models.TextField(null=True)
    progress_token = models.TextField(null=True)
    handle = models.BooleanField(db_default=False)
    client_task_id = models.TextField(null=True)
    keep_ms = models.BigIntegerField(null=True)
    join_seconds = models.IntegerField(null=True)
    waiter = models.CharField(max_length=32, null=True)
    left_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "task"
        constraints = [
            # A constraint instead of `unique=True`, for which Django would add a second index, for LIKE.
            models.UniqueConstraint(fields=["public_id"], name="task_public_id_unique"),
            models.CheckConstraint(condition=Q(state__in=STATES), name="task_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=TERMINAL, ended_at__isnull=False)
                | (~Q(state__in=TERMINAL) & Q(ended_at__isnull=True)),
                name="task_ended_iff_terminal",
            ),
            models.CheckConstraint(
                condition=Q(state="finished", result__isnull=False) | (~Q(state="finished") & Q(result__isnull=True)),
                name="task_result_iff_finished",
            ),
            models.CheckConstraint(
                condition=Q(state="faulted", error__isnull=False) | (~Q(state="faulted") & Q(error__isnull=True)),
                name="task_error_iff_faulted",
            ),
            models.CheckConstraint(
                condition=Q(ended_as="")
                | Q(ended_as__in=["rejected", "expired"], state="finished", is_error=True)
                | Q(ended_as__in=["expired", "denied"], state="faulted"),
                name="task_ended_as_fits",
            ),
            models.CheckConstraint(
                condition=Q(lease_until__isnull=True) | Q(state__in=["working", "input_required"]),
                name="task_lease_only_while_held",
            ),
            models.CheckConstraint(
                condition=Q(ttl_ms__isnull=True) | Q(ttl_ms__range=(1_000, 2_592_000_000)),
                name="task_ttl_range",
            ),
            models.CheckConstraint(condition=Q(poll_interval_ms__range=(100, 60_000)), name="task_poll_interval_range"),
            models.CheckConstraint(condition=Q(created_at__lte=models.F("updated_at")), name="task_times_in_order"),
            models.CheckConstraint(
                condition=~Q(revision=DECIDED_ONLY, state__in=["queued", "working"]),
                name="task_decided_only_never_runs",
            ),
            models.CheckConstraint(
                condition=Q(keep_ms__isnull=True) | Q(keep_ms__range=(1_000, 2_592_000_000)), name="task_keep_range"
            ),
            models.UniqueConstraint(
                fields=["context", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="task_idempotency_key_unique",
            ),
        ]
        # No index has a column that changes while a task runs (lease_until, updated_at, progress, message), so that
        # such a change writes a row and no index entry (a HOT update).
        indexes = [
            models.Index(fields=["runnable_at", "id"], condition=Q(state="queued"), name="task_runnable"),
            models.Index(
                fields=["context", "tool", "runnable_at", "id"],
                condition=Q(state="queued"),
                name="task_runnable_by_tool",
            ),
            models.Index(fields=["expires_at"], condition=Q(state="queued"), name="task_unrun"),
            models.Index(fields=["id"], condition=~Q(worker="") & Q(ended_at__isnull=True), name="task_held"),
            models.Index(
                fields=["context", "arguments_digest"], condition=Q(ended_at__isnull=True), name="task_live_by_context"
            ),
            models.Index(fields=["context", "arguments_digest"], condition=Q(left_at__isnull=False), name="task_left"),
            models.Index(
                fields=["context", "tool", "arguments_digest", "ended_at"],
                condition=Q(waiter__isnull=False, ended_at__isnull=False),
                name="task_waited_for",
            ),
            models.Index(
                fields=["tenant", "-id"],
                condition=Q(left_at__isnull=False, state__in=["finished", "faulted"]),
                name="task_newest_not_fetched",
            ),
            models.Index(fields=["tenant", "-id"], name="task_newest"),
            models.Index(fields=["tenant", "state", "-id"], name="task_newest_by_state"),
            models.Index(fields=["context", "-id"], name="task_newest_by_context"),
            models.Index(
                fields=["tenant", "-id"],
                condition=Q(state="finished", is_error=True, ended_as=""),
                name="task_newest_with_error",
            ),
            models.Index(
                fields=["tenant", "-id"], condition=Q(state="faulted", ended_as=""), name="task_newest_faulted"
            ),
            models.Index(fields=["tenant", "ended_as", "-id"], condition=~Q(ended_as=""), name="task_newest_ended_as"),
            models.Index(
                fields=["context", "state", "-id"],
                condition=Q(is_error=True) | Q(state__in=["faulted", "cancelled"]),
                name="task_troubled_by_context",
            ),
            models.Index(
                fields=["context", "revision", "expires_at"], condition=Q(handle=True), name="task_handed_out"
            ),
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="task_ended"),
            models.Index(
                fields=["session", "ended_at"], condition=Q(session__isnull=False), name="task_ended_by_session"
            ),
            models.Index(
                fields=["session"],
                condition=Q(session__isnull=False, state="input_required"),
                name="task_asking_by_session",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class Question(models.Model):
    """A question whose answer a task waits for. No other question of the task ever has the same key (T26-30)."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="questions", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    key = models.CharField(max_length=64)
    upstream_key = models.CharField(max_length=256, db_default="")
    kind = models.CharField(max_length=16)
    params = JsonText()
    definition = JsonText(null=True)
    definition_digest = models.BinaryField(max_length=32, null=True)
    call_digest = models.BinaryField(max_length=32, null=True)
    """For an approval: the digest of everything that people approve (`th_call_digest`)."""
    alike = models.BinaryField(max_length=32, null=True)
    """A value that is the same for approvals that people may decide together (`th_alike`), so that lists find them
    without their tasks. Null for any other question."""
    audience = models.CharField(max_length=8)
    group = models.CharField(max_length=64, db_default="")
    quorum = models.IntegerField(db_default=1)
    live = models.BooleanField(db_default=False)
    state = models.CharField(max_length=12, db_default="open")
    response = models.TextField(null=True)
    error = models.TextField(null=True)
    opened_at = models.DateTimeField(db_default=Now())
    called_at = models.DateTimeField(null=True)
    """For an approval: when its task was created, so that lists of questions need no join with tasks (`th_barred`)."""
    closed_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    remind_at = models.DateTimeField(null=True)
    """For an approval: when people are reminded, if they have not decided (`core.rules.Rule.remind_minutes`)."""
    reminded_at = models.DateTimeField(null=True)
    handed_to = models.ForeignKey("auth.User", models.SET_NULL, null=True, related_name="+", db_index=False)
    handed_group = models.CharField(max_length=64, db_default="")
    """The group to which `handed_by` handed the question over, or in `handed_to` the person, while the question is
    open. Others may still answer it."""
    handed_by = models.ForeignKey("auth.User", models.SET_NULL, null=True, related_name="+", db_index=False)
    about = models.ForeignKey("self", models.CASCADE, null=True, related_name="+", db_index=False)
    """The approval that this question is about, if an approver asks the requester (`question_about_guard`). The
    question closes with the approval. Null for any other question."""
    asked_by = models.ForeignKey("auth.User", models.SET_NULL, null=True, related_name="+", db_index=False)
    """The approver who asks the requester."""
    person = models.ForeignKey("auth.User", models.SET_NULL, null=True, related_name="+", db_index=False)
    """The only person who may answer the question in the console: the one who signed in the program. Null if the client
    is asked."""

    class Meta:
        db_table = "question"
        constraints = [
            models.UniqueConstraint(fields=["task", "key"], name="question_key_once_per_task"),
            models.CheckConstraint(
                condition=Q(kind__in=[str(kind) for kind in QuestionKind]),
                name="question_kind_known",
            ),
            models.CheckConstraint(
                condition=Q(audience__in=["client", "operator", "either"]), name="question_audience_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["open", "answered", "superseded", "expired"]),
                name="question_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state="answered", response__isnull=False)
                | (~Q(state="answered") & Q(response__isnull=True)),
                name="question_response_iff_answered",
            ),
            models.CheckConstraint(
                condition=Q(error__isnull=True) | Q(state="superseded"), name="question_error_is_no_answer"
            ),
            models.CheckConstraint(
                condition=Q(state="open", closed_at__isnull=True) | (~Q(state="open") & Q(closed_at__isnull=False)),
                name="question_closed_iff_not_open",
            ),
            models.CheckConstraint(
                condition=Q(reminded_at__isnull=True) | Q(remind_at__isnull=False), name="question_reminded_when_due"
            ),
            models.CheckConstraint(
                condition=Q(handed_to__isnull=True) | Q(handed_group=""), name="question_handed_to_one"
            ),
            models.CheckConstraint(
                condition=Q(about__isnull=True, asked_by__isnull=True, person__isnull=True)
                | Q(about__isnull=False, kind="elicitation", upstream_key="", live=False, due_at__isnull=True)
                & Q(audience__in=["client", "operator"]),
                name="question_about_an_approval",
            ),
        ]
        indexes = [
            # The condition is not on `state`. A query for the open questions of one task fits such an index as well as
            # the one by task, and a plan made while few questions were open would go on reading all open ones.
            models.Index(fields=["tenant", "opened_at"], condition=Q(closed_at__isnull=True), name="question_open"),
            models.Index(
                fields=["alike"], condition=Q(alike__isnull=False, closed_at__isnull=True), name="question_alike"
            ),
            # Each question that is deleted looks for those about it.
            models.Index(fields=["about"], condition=Q(about__isnull=False), name="question_about"),
            models.Index(
                fields=["tenant", "-closed_at", "-id"], condition=Q(closed_at__isnull=False), name="question_closed"
            ),
            models.Index(
                fields=["tenant", "-closed_at", "-id"],
                condition=Q(kind="approval", closed_at__isnull=False),
                name="question_approval_closed",
            ),
            models.Index(
                fields=["remind_at"],
                condition=Q(remind_at__isnull=False, reminded_at__isnull=True, closed_at__isnull=True),
                name="question_to_remind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class OutcomeCheck(models.Model):
    """What the companion of a tool says of a run that was lost (`domain.tasks.checks`). `tries` counts how often a
    worker took the check, and `next_at` is when a worker may take it again."""

    question = models.OneToOneField(Question, models.CASCADE, primary_key=True, related_name="check_of_outcome")
    tool_name = models.CharField(max_length=160, db_default="")
    arguments = models.TextField(null=True)
    tries = models.IntegerField(db_default=0)
    next_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    result = models.TextField(null=True)
    problem = models.TextField(db_default="")

    class Meta:
        db_table = "outcome_check"
        constraints = [
            models.CheckConstraint(
                condition=Q(result__isnull=True) | Q(ended_at__isnull=False), name="outcome_check_result_ends_it"
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(ended_at__isnull=True), name="outcome_check_due"),
        ]

    def __str__(self) -> str:
        return f"check of {self.question_id}"


class Preview(models.Model):
    """The preview of a call, as the people who are asked about the call see it (`domain.tasks.previews`). Nobody can
    approve before `ended_at`. After that nothing changes. `tries` and `next_at` are as in `OutcomeCheck`."""

    question = models.OneToOneField(Question, models.CASCADE, primary_key=True, related_name="preview")
    tool_name = models.CharField(max_length=160, db_default="")
    arguments = models.TextField(null=True)
    tries = models.IntegerField(db_default=0)
    next_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    text = models.TextField(null=True)
    """The answer as text; `None` if there was none, and then `problem` says why."""
    left_out = models.IntegerField(db_default=0)
    """How many characters of the answer were not kept."""
    is_error = models.BooleanField(db_default=False)
    problem = models.TextField(db_default="")
    digest = models.BinaryField(max_length=32, null=True)
    """The digest of the whole answer, including the part that was not kept. All previews that ended without an answer
    have the same digest."""

    class Meta:
        db_table = "preview"
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, digest__isnull=True, text__isnull=True)
                | Q(ended_at__isnull=False, digest__isnull=False),
                name="preview_digest_iff_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(ended_at__isnull=True), name="preview_due"),
        ]

    def __str__(self) -> str:
        return f"preview of {self.question_id}"


class Decision(models.Model):
    """The verdict of one person or client on a question, or of a rule where nobody decided in time (`allow`, `deny`),
    and the door through which it came."""

    question = models.ForeignKey(Question, models.CASCADE, related_name="decisions")
    actor = models.CharField(max_length=255)
    user = models.ForeignKey("auth.User", models.SET_NULL, null=True)
    for_user = models.ForeignKey("auth.User", models.SET_NULL, null=True, related_name="+", db_index=False)
    """The person who was away, if `user` decided as their deputy; else null. The decision is the one vote of both."""
    context = models.ForeignKey(AuthContext, models.SET_NULL, null=True)
    verdict = models.CharField(max_length=16)
    reason = models.CharField(max_length=1024, db_default="")
    arguments_digest = models.BinaryField(max_length=32)
    call_digest = models.BinaryField(max_length=32, null=True)
    preview_digest = models.BinaryField(max_length=32, null=True)
    """The digest of the preview that was shown with the call; null if there was none."""
    second_factor = models.CharField(max_length=16, db_default="")
    """The kind of second factor with which the approval was confirmed, `totp` or `recovery_codes`; empty if the rule
    wants none."""
    door = models.CharField(max_length=8)
    at = models.DateTimeField(db_default=Now())
    undo_until = models.DateTimeField(null=True)
    """Until when the person may undo the decision; until then no worker takes the task. Null if it cannot be undone."""

    class Meta:
        db_table = "decision"
        indexes = [
            models.Index(
                fields=["undo_until"],
                condition=Q(verdict="reject", undo_until__isnull=False),
                name="decision_rejected",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["question", "user"], condition=Q(user__isnull=False), name="decision_one_per_person"
            ),
            models.UniqueConstraint(
                fields=["question", "for_user"], condition=Q(for_user__isnull=False), name="decision_one_for_person"
            ),
            models.CheckConstraint(
                condition=Q(for_user__isnull=True) | Q(user__isnull=False) & ~Q(for_user=models.F("user")),
                name="decision_for_another",
            ),
            models.CheckConstraint(
                condition=Q(verdict__in=VERDICTS),
                name="decision_verdict_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.verdict}"


class Attempt(models.Model):
    """One run of a task by one worker. `number` is the lease epoch of the run."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="attempts", db_index=False)
    number = models.IntegerField()
    worker = models.CharField(max_length=128)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=16, db_default="")
    error = models.TextField(db_default="")

    class Meta:
        db_table = "attempt"
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="attempt_number_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.number}"


class Deferred(models.Model):
    """A call that its server runs as a task of its own, which workers poll (`domain/tasks/deferred.py`). `epoch` is the
    attempt that made the call. `poll_at` is null once the server's task is over. `session` is the id of the session
    that the server's task belongs to, encrypted; it is deleted when polling ends."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="deferred", db_index=False)
    epoch = models.IntegerField()
    server = models.ForeignKey(Server, models.PROTECT, db_index=False)
    upstream_id = models.CharField(max_length=256)
    revision = models.CharField(max_length=32)
    home = models.CharField(max_length=128, db_default="")
    session = models.BinaryField(null=True)
    status = models.CharField(max_length=16, db_default="working")
    poll_ms = models.IntegerField(db_default=1000)
    poll_at = models.DateTimeField(null=True)
    turn = models.IntegerField(db_default=0)
    ran_seconds = models.FloatField(db_default=0.0)
    running_since = models.DateTimeField(null=True)
    cancel_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "deferred"
        constraints = [
            models.UniqueConstraint(fields=["task", "epoch"], name="deferred_epoch_unique"),
            models.UniqueConstraint(fields=["task"], condition=Q(poll_at__isnull=False), name="deferred_one_polled"),
            models.CheckConstraint(
                condition=Q(poll_at__isnull=False, status__in=["working", "input_required"])
                | Q(poll_at__isnull=True, status__in=["completed", "failed", "cancelled", "unknown"]),
                name="deferred_polled_until_over",
            ),
            models.CheckConstraint(condition=Q(poll_ms__range=(100, 60_000)), name="deferred_poll_range"),
            models.CheckConstraint(condition=~Q(upstream_id=""), name="deferred_has_an_id"),
        ]
        indexes = [
            models.Index(fields=["server", "poll_at"], condition=Q(poll_at__isnull=False), name="deferred_due"),
            models.Index(fields=["cancel_at"], condition=Q(cancel_at__isnull=False), name="deferred_to_cancel"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} at {self.server_id}"


class TaskLog(models.Model):
    """A log line or progress note of a tool that ran. The id gives the order."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="lines")
    level = models.CharField(max_length=16)
    text = models.CharField(max_length=4096)
    progress = models.FloatField(null=True)
    total = models.FloatField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "task_log"

    def __str__(self) -> str:
        return self.text[:80]


class ResultRead(models.Model):
    """How often a client was given the outcome of a task, and when first and last."""

    pk = models.CompositePrimaryKey("task_id", "context_id")
    # The migration adds the foreign key of `task`, with ON DELETE CASCADE. `context` needs none: the task's own key
    # keeps the client from being deleted before it.
    task = models.ForeignKey(Task, models.CASCADE, db_index=False, db_constraint=False)
    context = models.ForeignKey(AuthContext, models.CASCADE, db_index=False, db_constraint=False)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    count = models.BigIntegerField()

    class Meta:
        db_table = "result_read"
        constraints = [
            models.CheckConstraint(
                condition=Q(count__gte=1, first_at__lte=models.F("last_at")), name="result_read_makes_sense"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} by {self.context_id}"
