"""Offers (prompts, resources, templates) of servers; relays and interests, by which web processes ask workers."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from taskhub.store.fields import JsonText
from taskhub.store.models.people import AuthContext
from taskhub.store.models.servers import Server


class Offer(models.Model):
    """A prompt, a resource or a resource template of a server, verbatim."""

    server = models.ForeignKey(Server, models.CASCADE, related_name="offers")
    kind = models.CharField(max_length=8)
    key = models.TextField()
    exposed_name = models.TextField()
    position = models.IntegerField(db_default=0)
    definition = JsonText()
    digest = models.CharField(max_length=64)
    rejected = models.TextField(db_default="", blank=True)
    first_seen_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    gone_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "offer"
        constraints = [
            models.UniqueConstraint(fields=["server", "kind", "key"], name="offer_key_unique"),
            models.CheckConstraint(condition=Q(kind__in=["prompt", "resource", "template"]), name="offer_kind_known"),
        ]

    def __str__(self) -> str:
        return self.exposed_name


class Relay(models.Model):
    """A request that a worker makes to a server for a web process, and its outcome. The row lives for
    seconds, in an UNLOGGED table: a crash of the database loses it, and the caller gets an error. The
    web process makes the id, so that it can listen for the outcome before it inserts the row."""

    id = models.BigIntegerField(primary_key=True)
    context = models.ForeignKey(AuthContext, models.CASCADE)
    server = models.ForeignKey(Server, models.CASCADE, related_name="+")
    method = models.CharField(max_length=32)
    params = JsonText()
    capabilities = JsonText()
    state = models.CharField(max_length=8, db_default="waiting")
    outcome = JsonText(null=True)
    worker = models.CharField(max_length=128, db_default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())
    deadline = models.DateTimeField()

    class Meta:
        db_table = "relay"
        constraints = [
            models.CheckConstraint(
                condition=Q(method__in=["resources/read", "prompts/get", "completion/complete"]),
                name="relay_method_known",
            ),
            models.CheckConstraint(condition=Q(state__in=["waiting", "running", "done"]), name="relay_state_known"),
            models.CheckConstraint(
                condition=Q(state="done", outcome__isnull=False) | (~Q(state="done") & Q(outcome__isnull=True)),
                name="relay_outcome_iff_done",
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", worker="") | (~Q(state="waiting") & ~Q(worker="")),
                name="relay_worker_iff_claimed",
            ),
        ]
        indexes = [
            models.Index(fields=["server", "created_at"], condition=Q(state="waiting"), name="relay_waiting"),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.pk}"


class Interest(models.Model):
    """The wish of a client's stream (`holder`) to hear when a resource changes. It expires unless the
    stream renews it. The table is UNLOGGED: the next renewal restores a row that a crash lost."""

    holder = models.CharField(max_length=64)
    server = models.ForeignKey(Server, models.CASCADE, related_name="+")
    uri = models.TextField()
    followed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "interest"
        constraints = [
            models.UniqueConstraint(fields=["holder", "server", "uri"], name="interest_unique"),
        ]
        indexes = [models.Index(fields=["server"], name="interest_server")]

    def __str__(self) -> str:
        return self.uri
