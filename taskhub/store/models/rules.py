"""The versions of tenants' rules, which are only ever added, and the times in which nobody is asked."""

from datetime import timedelta

from django.db import models
from django.db.models import F, Q

from taskhub.core.bypass import MAX_MINUTES, MAX_REASON
from taskhub.core.rules import MAX_NAME
from taskhub.store.fields import JsonText
from taskhub.store.models.people import AuthContext, Tenant
from taskhub.store.models.servers import Server, Tool


class RuleVersion(models.Model):
    """The whole list of a tenant's rules, as somebody saved it; the one with the highest number is in force.
    Append-only: triggers refuse UPDATE, DELETE and TRUNCATE.

    A tenant with versions cannot be deleted, because decisions name them."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    number = models.IntegerField()
    """1 and up, without gaps."""
    rules = JsonText()
    digest = models.CharField(max_length=64)
    made_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    made_by = models.CharField(max_length=255)
    reason = models.CharField(max_length=500, db_default="", blank=True)

    class Meta:
        db_table = "rule_version"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "number"], name="rule_version_number_unique"),
            models.CheckConstraint(condition=Q(number__gte=1), name="rule_version_number_positive"),
        ]

    def __str__(self) -> str:
        return f"version {self.number} of the rules of {self.tenant_id}"


class Bypass(models.Model):
    """A time in which calls of a tenant run without the approvals that rules ask for. The trigger `bypass_guard`
    refuses every change but the end of the bypass."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    server = models.ForeignKey(Server, models.PROTECT, null=True, related_name="+", db_index=False)
    """The server whose calls the bypass lets pass; null for all servers."""
    reason = models.CharField(max_length=MAX_REASON)
    made_by = models.CharField(max_length=255)
    began_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    ends_at = models.DateTimeField()
    """The bypass is over then, whether or not its end is recorded."""
    ended_at = models.DateTimeField(null=True)
    """When the bypass ended: when somebody ended it, or `ends_at`, once that has passed and was recorded."""

    class Meta:
        db_table = "bypass"
        constraints = [
            models.UniqueConstraint(fields=["tenant"], condition=Q(ended_at__isnull=True), name="bypass_one_at_a_time"),
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("began_at"), ends_at__lte=F("began_at") + timedelta(minutes=MAX_MINUTES)),
                name="bypass_is_short",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("began_at"), ended_at__lte=F("ends_at")),
                name="bypass_ends_in_its_time",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="bypass_has_a_reason"),
        ]

    def __str__(self) -> str:
        return f"bypass {self.pk} of {self.tenant_id}"


class DismissedProposal(models.Model):
    """A proposal to let calls of a client run (`domain.rules.proposals`) that somebody dismissed. `approved`: how many
    approvals it had then."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    rule = models.CharField(max_length=MAX_NAME)
    context = models.ForeignKey(AuthContext, models.CASCADE, related_name="+", db_index=False)
    tool = models.ForeignKey(Tool, models.CASCADE, related_name="+", db_index=False)
    approved = models.IntegerField()
    dismissed_by = models.CharField(max_length=255)
    dismissed_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))

    class Meta:
        db_table = "dismissed_proposal"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "context", "tool", "rule"], name="dismissed_proposal_once"),
        ]

    def __str__(self) -> str:
        return f"proposal for {self.rule} of {self.tenant_id}, dismissed"
