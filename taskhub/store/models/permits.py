"""Permits: approved calls that their clients make themselves, without the hub."""

from django.db import models
from django.db.models import F, Q

from taskhub.store.models.people import AuthContext, Tenant
from taskhub.store.models.servers import Tool


class Permit(models.Model):
    """One call that one client may make once, until `expires_at`. The trigger `permit_guard` refuses every change but
    the redemption. `public_id` is the id of the task in which people approved the call; if a rule allowed it, there is
    no such task.

    There is no foreign key to `task`, because a permit may outlive the purge of its task."""

    public_id = models.CharField(max_length=64)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    context = models.ForeignKey(AuthContext, models.PROTECT, related_name="+", db_index=False)
    tool = models.ForeignKey(Tool, models.PROTECT, related_name="+", db_index=False)
    arguments_digest = models.BinaryField(max_length=32)
    tool_digest = models.BinaryField(max_length=32)
    """The digest of the tool's definition at the time of the decision."""
    rules_version = models.IntegerField()
    asked = models.BooleanField()
    """Whether people approved the call."""
    issued_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    expires_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "permit"
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="permit_public_id_unique"),
            models.CheckConstraint(condition=Q(expires_at__gt=F("issued_at")), name="permit_expires_after_issue"),
            models.CheckConstraint(
                condition=Q(redeemed_at__isnull=True)
                | Q(redeemed_at__gte=F("issued_at"), redeemed_at__lt=F("expires_at")),
                name="permit_redeemed_in_its_time",
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="permit_expiry")]

    def __str__(self) -> str:
        return self.public_id
