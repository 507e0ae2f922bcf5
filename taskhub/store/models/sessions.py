"""State of the 2025 revisions between requests: sessions, their streams, and the server's requests to clients."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from taskhub.store.fields import JsonText
from taskhub.store.models.people import AuthContext, Tenant


class Session(models.Model):
    """What a client and the hub agreed on at `initialize`. Any web process can serve the session."""

    public_id = models.CharField(max_length=64)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    context = models.ForeignKey(AuthContext, models.CASCADE, db_index=False)
    version = models.CharField(max_length=16)
    client_info = models.JSONField(db_default={})
    client_capabilities = models.JSONField(db_default={})
    log_level = models.CharField(max_length=16, db_default="debug")
    profile = models.CharField(max_length=16, db_default="")
    resources = ArrayField(models.TextField(), db_default=[])
    created_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "session"
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="session_public_id_unique"),
        ]
        indexes = [
            models.Index(fields=["context", "seen_at"], condition=Q(ended_at__isnull=True), name="session_live"),
            models.Index(fields=["seen_at"], name="session_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.version} {self.public_id[:8]}…"


class Stream(models.Model):
    """A resumable `text/event-stream` response. Its events are not stored: they are made from the
    task and from `Outbound`.

    `attach` counts its attachments, each by a process that serves it; only the newest may send.
    """

    session = models.ForeignKey(Session, models.CASCADE)
    task = models.ForeignKey("store.Task", models.CASCADE, null=True)
    kind = models.CharField(max_length=8)
    request_id = models.TextField(db_default="")
    progress_token = models.TextField(null=True)
    attach = models.IntegerField(db_default=1)
    attached = models.BooleanField(db_default=True)
    opened_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True)
    cancelled = models.BooleanField(db_default=False)

    class Meta:
        db_table = "stream"
        indexes = [models.Index(fields=["seen_at"], name="stream_seen")]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["call", "wait", "result", "listen"]), name="stream_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(kind="listen", task__isnull=True) | (~Q(kind="listen") & Q(task__isnull=False)),
                name="stream_task_unless_listen",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class Outbound(models.Model):
    """A request of the hub to a client: a question, a step to its answer, or (`page`) a request to open the page where
    people answer it. It is sent on one stream at a time. When that stream has ended, it is sent again on another, under
    the same id.

    A request to open a page that was part of a round is `offered`, and has no stream. A request that was sent in a
    session and accepted stays `accepted` until the client is told that the question is closed.
    """

    task = models.ForeignKey("store.Task", models.CASCADE)
    question = models.ForeignKey("store.Question", models.CASCADE, db_index=False)
    step = models.IntegerField(db_default=0)
    page = models.BooleanField(db_default=False)
    method = models.CharField(max_length=32)
    params = JsonText()
    stream = models.ForeignKey(Stream, models.SET_NULL, null=True)
    state = models.CharField(max_length=12, db_default="open")
    opened_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "outbound"
        indexes = [
            models.Index(fields=["task"], condition=Q(state="open"), name="outbound_open"),
            models.Index(fields=["stream"], condition=Q(state="accepted"), name="outbound_accepted"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["question", "page", "step"], name="outbound_step_once"),
            models.CheckConstraint(
                condition=Q(state__in=["open", "answered", "withdrawn"])
                | Q(state__in=["offered", "accepted"], page=True),
                name="outbound_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["open", "offered"], closed_at__isnull=True)
                | (~Q(state__in=["open", "offered"]) & Q(closed_at__isnull=False)),
                name="outbound_closed_iff_not_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.pk}"
