"""Workers, running and stopped, and the times of calls that they counted."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from taskhub.core.timings import BOUNDS, TimingKind
from taskhub.store.models.people import AuthContext
from taskhub.store.models.servers import Server


class Worker(models.Model):
    """A worker process, or a web process that runs calls in place. It is alive while `heartbeat_at` is recent."""

    name = models.CharField(max_length=128, unique=True)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    version = models.CharField(max_length=32)
    slots = models.IntegerField()
    busy = models.IntegerField(db_default=0)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)
    in_place = models.BooleanField(db_default=False)
    """Whether it is a web process, which runs calls in place and takes no task from the queue."""

    class Meta:
        db_table = "worker"

    def __str__(self) -> str:
        return self.name


class UpstreamSession(models.Model):
    """A client's session at a server, in one worker: a process of a command, or a session over HTTP. The client's calls
    go to that worker. The row of a session that has ended says why, for the client's next call."""

    server = models.ForeignKey(Server, models.CASCADE)
    context = models.ForeignKey(AuthContext, models.CASCADE)
    worker = models.CharField(max_length=128)
    pid = models.IntegerField(null=True)
    memory = models.BigIntegerField(null=True)
    opened_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    why = models.CharField(max_length=200, db_default="", blank=True)

    class Meta:
        db_table = "upstream_session"
        constraints = [
            models.UniqueConstraint(fields=["server", "context"], name="upstream_session_once"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, why="") | (Q(ended_at__isnull=False) & ~Q(why="")),
                name="upstream_session_ended_for_a_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["worker"], condition=Q(ended_at__isnull=True), name="upstream_session_open"),
        ]

    def __str__(self) -> str:
        return f"session of {self.context_id} at {self.server_id}"


class ServerLine(models.Model):
    """A line that a command wrote to its standard error, or among its messages to standard output. The newest lines of
    each server are kept. The table is UNLOGGED: it may be lost in a crash of the database."""

    server = models.ForeignKey(Server, models.CASCADE, db_index=False)
    worker = models.CharField(max_length=128)
    said_at = models.DateTimeField(db_default=Now())
    text = models.TextField()

    class Meta:
        db_table = "server_line"
        indexes = [models.Index(fields=["server", "id"], name="server_line_of")]

    def __str__(self) -> str:
        return f"line of {self.server_id}"


class Timing(models.Model):
    """A histogram of one kind of times for a server (`core.timings`), to which all workers add. The table is UNLOGGED:
    it is written every few seconds, and may be lost in a crash of the database."""

    server = models.ForeignKey(Server, models.CASCADE)
    kind = models.CharField(max_length=16)
    counts = ArrayField(models.BigIntegerField())
    seconds = models.FloatField()

    class Meta:
        db_table = "timing"
        constraints = [
            models.UniqueConstraint(fields=["server", "kind"], name="timing_once"),
            models.CheckConstraint(condition=Q(kind__in=[*TimingKind]), name="timing_kind_known"),
            models.CheckConstraint(condition=Q(counts__len=len(BOUNDS) + 1), name="timing_counts_whole"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.server_id}"
