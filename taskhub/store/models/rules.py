"""The rules of tenants, as versions that are only ever added."""

from django.db import models
from django.db.models import Q

from taskhub.store.fields import JsonText
from taskhub.store.models.people import Tenant


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
